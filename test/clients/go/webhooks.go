// Receives webhooks, and prints those that Inflow signed with the secret.
//
//	INFLOW_WEBHOOK_SECRET=whsec_… go run webhooks.go 9000
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// verify returns whether the body, as the bytes that arrived, was signed with the secret within five minutes.
func verify(secret string, header http.Header, body []byte) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return false
	}
	if age := time.Now().Unix() - seconds; age > 300 || age < -300 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	matches := false
	// During a rotation there are several signatures, with a space between them.
	for _, given := range strings.Split(header.Get("webhook-signature"), " ") {
		matches = hmac.Equal(expected, []byte(given)) || matches
	}
	return matches
}

func receive(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, 1<<20))
	if err != nil || !verify(os.Getenv("INFLOW_WEBHOOK_SECRET"), request.Header, body) {
		response.WriteHeader(http.StatusUnauthorized)
		return
	}
	var event struct {
		Event string `json:"event"`
		Data  struct {
			EventID string `json:"event_id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	// A repeat has the same event_id: handle each once.
	fmt.Println(event.Event, event.Data.EventID)
	response.WriteHeader(http.StatusNoContent)
}

func main() {
	server := http.Server{
		Addr:        "127.0.0.1:" + os.Args[1],
		Handler:     http.HandlerFunc(receive),
		ReadTimeout: 10 * time.Second,
	}
	fmt.Println("receiving on port", os.Args[1])
	log.Fatal(server.ListenAndServe())
}
