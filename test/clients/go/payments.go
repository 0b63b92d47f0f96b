// Opens a virtual account over REST, and looks a payment up by its session id.
//
//	INFLOW_URL=http://127.0.0.1:8080 INFLOW_SECRET_KEY=sk_… go run payments.go <reference> [<session id>]
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

// response is the body of every response: the data, or what is wrong.
type response struct {
	Data      any                               `json:"data"`
	Message   string                            `json:"message"`
	Code      string                            `json:"code"`
	Errors    []struct{ Field, Message string } `json:"errors"`
	RequestID string                            `json:"request_id"`
}

func (failure *response) Error() string {
	text := fmt.Sprintf("%s: %s (request %s)", failure.Code, failure.Message, failure.RequestID)
	for _, each := range failure.Errors {
		text += fmt.Sprintf("\n%s %s", each.Field, each.Message)
	}
	return text
}

var client = http.Client{Timeout: 30 * time.Second}

// call posts to a path, and decodes the data of the response.
func call(path string, body map[string]string, data any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	url := os.Getenv("INFLOW_URL") + "/v2/thirdparty/" + path + "/"
	request, err := http.NewRequest("POST", url, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("INFLOW_SECRET_KEY"))
	request.Header.Set("Content-Type", "application/json")
	got, err := client.Do(request)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	decoded := &response{Data: data, Message: got.Status}
	err = json.NewDecoder(io.LimitReader(got.Body, 1<<20)).Decode(decoded)
	if got.StatusCode != http.StatusOK {
		return decoded // a proxy's error may not be JSON: then it has the status
	}
	return err
}

func run(arguments []string) error {
	var opened struct {
		Account []struct {
			AccountNumber string `json:"account_number"`
			AccountName   string `json:"account_name"`
		}
	}
	// A repeat with the same reference returns the same account.
	customer := map[string]string{"reference": arguments[0], "firstName": "Ada", "lastName": "Obi",
		"email": "ada@example.com", "phone": "08012345678", "bank": "9PSB"}
	if err := call("generateVirtualAccount", customer, &opened); err != nil {
		return err
	}
	for _, account := range opened.Account {
		fmt.Println("account", account.AccountNumber, account.AccountName)
	}
	if len(arguments) < 2 {
		return nil
	}
	var payment struct {
		Amount float64
		Status string
	}
	if err := call("getTransaction", map[string]string{"session_id": arguments[1]}, &payment); err != nil {
		return err
	}
	// The amount is in naira. Count in kobo: rounding gives exactly those.
	fmt.Println("payment", int64(math.Round(payment.Amount*100)), payment.Status)
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
