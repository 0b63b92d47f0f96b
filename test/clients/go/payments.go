// Opens a virtual account over REST, and looks a payment up by its session id.
//
//	INFLOW_SECRET_KEY=sk_… go run payments.go <reference> [<session id>]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"time"
)

// Failure is the body of an error.
type Failure struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	Errors  []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"errors"`
	RequestID string `json:"request_id"`
}

func (failure *Failure) Error() string {
	text := fmt.Sprintf("%s: %s (request %s)", failure.Code, failure.Message, failure.RequestID)
	for _, each := range failure.Errors {
		text += fmt.Sprintf("\n%s %s", each.Field, each.Message)
	}
	return text
}

type virtualAccount struct {
	Account []struct {
		AccountNumber string `json:"account_number"`
		AccountName   string `json:"account_name"`
	} `json:"account"`
}

type payment struct {
	Amount float64 `json:"amount"`
	Status string  `json:"status"`
}

var client = http.Client{Timeout: 30 * time.Second}

// call posts to a path, and decodes the data of the response.
func call[Data any](path string, body map[string]string) (data Data, err error) {
	base := os.Getenv("INFLOW_URL")
	if base == "" {
		base = "http://127.0.0.1:8080"
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return data, err
	}
	request, err := http.NewRequest("POST", base+"/v2/thirdparty/"+path+"/", bytes.NewReader(encoded))
	if err != nil {
		return data, err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("INFLOW_SECRET_KEY"))
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return data, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return data, err
	}
	if response.StatusCode != http.StatusOK {
		failure := &Failure{Message: response.Status}
		_ = json.Unmarshal(text, failure) // a proxy's error may not be JSON
		return data, failure
	}
	var success struct{ Data Data }
	err = json.Unmarshal(text, &success)
	return success.Data, err
}

func run(arguments []string) error {
	// A repeat with the same reference returns the same account.
	opened, err := call[virtualAccount]("generateVirtualAccount", map[string]string{
		"reference": arguments[0],
		"email":     "ada@example.com",
		"phone":     "08012345678",
		"firstName": "Ada",
		"lastName":  "Obi",
		"bank":      "9PSB",
	})
	if err != nil {
		return err
	}
	for _, account := range opened.Account {
		fmt.Println("account", account.AccountNumber, account.AccountName)
	}
	if len(arguments) < 2 {
		return nil
	}
	found, err := call[payment]("getTransaction", map[string]string{"session_id": arguments[1]})
	if err != nil {
		return err
	}
	// The amount is in naira. Count in kobo: rounding gives exactly those.
	fmt.Println("payment", int64(math.Round(found.Amount*100)), found.Status)
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
