package external

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/google/uuid"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// firstPort and lastPort bound the ports of servers: below those that outgoing connections are given.
	firstPort, lastPort = 32000, 32767
	// Issuer is the issuer of service account tokens.
	Issuer = "https://foo.bar.example.com"
)

var tried atomic.Int64

// FreePort finds a port that nothing listens on. Tests of other processes look at the same time: each process has an
// order of its own.
func FreePort() int {
	count := lastPort - firstPort + 1
	for i := 0; i < 2*count; i++ {
		port := firstPort + (os.Getpid()*7+int(tried.Add(1))*101)%count
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return port
		}
	}
	panic("no free port")
}

var accountKey = sync.OnceValues(keyutil.MakeEllipticPrivateKeyPEM)

// ServiceAccountKey writes the key that signs tokens of service accounts, the same one for every server of this process.
func ServiceAccountKey(dir string) (file string, err error) {
	key, err := accountKey()
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "integration-service-account.key")
	return file, os.WriteFile(file, key, 0o600)
}

// Lock waits until no other process has the lock of this name in KUBE_INTEGRATION_FIXTURES.
func Lock(name string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(os.Getenv("KUBE_INTEGRATION_FIXTURES"), name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return func() { file.Close() }, syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
}

type pair struct{ crt, key []byte }

// servingPair is kept in KUBE_INTEGRATION_FIXTURES, as an RSA key takes long to make. One process at a time makes it.
var servingPair = sync.OnceValues(func() (pair, error) {
	unlock, err := Lock("serving-pair")
	if err != nil {
		return pair{}, err
	}
	defer unlock()
	crt, key, err := cert.GenerateSelfSignedCertKeyWithFixtures("127.0.0.1",
		[]net.IP{net.ParseIP("10.0.0.1")},
		[]string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost", ClientServerName},
		os.Getenv("KUBE_INTEGRATION_FIXTURES"))
	return pair{crt, key}, err
})

// ClientServerName is the name by which the client asks for the certificate of ServingPair, where the test has the server
// serve another one.
const ClientServerName = "integration-client"

// ServingPair writes apiserver.crt and apiserver.key to dir, where the server looks for them. The certificate is its own CA.
func ServingPair(dir string) (ca []byte, err error) {
	made, err := servingPair()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "apiserver.crt"), made.crt, 0o600); err != nil {
		return nil, err
	}
	return made.crt, os.WriteFile(filepath.Join(dir, "apiserver.key"), made.key, 0o600)
}

// TokenFile writes a file of static tokens: those of the test's own file, if it has one, and the client's.
func TokenFile(dir, own string) (file, token string, err error) {
	var content []byte
	if own != "" {
		if content, err = os.ReadFile(own); err != nil {
			return "", "", err
		}
		if len(content) > 0 && content[len(content)-1] != '\n' {
			content = append(content, '\n')
		}
	}
	token = uuid.New().String()
	content = fmt.Appendf(content, "%s,system:apiserver,%s,system:masters\n", token, uuid.New())
	file = filepath.Join(dir, "integration-tokens.csv")
	return file, token, os.WriteFile(file, content, 0o600)
}
