// serve serves a folder over HTTP on a free port of loopback, and says its URL.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	if err := os.Stdout.Close(); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, http.FileServer(http.Dir(os.Args[1]))))
}
