// What the reference's CBOR serializer makes of bytes and objects. `go run ./cbor`, in the folder conformance, renews
// cbor/recorded.txt and facts/cbor.json.gz, which crates/codec/tests/cbor.rs holds the server's own codec against.
//
// A block begins with a question:
//
//	A HEX                    bytes, read as a value without a type
//	J JSON                   a value without a type
//	D HEX                    bytes, in diagnostic notation
//	T GROUP/VERSION KIND HEX bytes, read as an object of a kind
//
// and goes on with the answer: the value or object as JSON (=), its bytes in CBOR (>), what is wrong in the strict mode alone
// (~), or why there is no answer (!). Bytes that are not UTF-8 are replaced in texts, as they are where JSON is written.
// facts/cbor.json.gz has the objects of facts/golden.json.gz, each by its name as base64 of its CBOR.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	recorded = "cbor/recorded.txt"
	golden   = "facts/golden.json.gz"
	objects  = "facts/cbor.json.gz"
	// Changed values and objects beside the written ones.
	changedValues  = 250
	changedObjects = 60
)

func main() {
	must(apiextensions.AddToScheme(scheme.Scheme))
	var out bytes.Buffer
	record(bufio.NewWriter(&out))
	must(os.WriteFile(recorded, out.Bytes(), 0o644))
	must(writeObjects())
}

func record(out *bufio.Writer) {
	defer out.Flush()
	random := rand.New(rand.NewPCG(1, 36))
	seen := map[string]bool{}
	ask := func(question, answer string) {
		if !seen[question] {
			seen[question] = true
			fmt.Fprintf(out, "%s\n%s\n", question, answer)
		}
	}
	value := func(data string) {
		answer := untyped(unhex(data))
		ask("A "+data, answer)
		// The notation is for messages about what was read.
		if !strings.HasPrefix(answer, "!") {
			ask("D "+data, diagnosed(unhex(data)))
		}
	}
	for _, data := range writtenValues {
		value(data)
	}
	for _, text := range writtenJSON {
		ask("J "+text, encoded(text))
	}
	for range changedValues {
		whole := randomItem(random, 3)
		whole.change(random)
		value(hex.EncodeToString(whole.encode()))
	}
	for _, sample := range samples {
		kind := sample.kind()
		data := sample.cbor()
		ask(kind.question(data), typed(kind, data))
		for _, written := range sample.written {
			ask(kind.question(unhex(written)), typed(kind, unhex(written)))
		}
		for range changedObjects {
			whole := readItem(data)
			for range 1 + random.IntN(2) {
				whole.change(random)
			}
			changed := whole.encode()
			if answer := typed(kind, changed); answer != "" {
				ask(kind.question(changed), answer)
			}
		}
	}
}

// Bytes as a value without a type, and that again as bytes.
func untyped(data []byte) string {
	var value any
	if err := direct.Unmarshal(data, &value); err != nil {
		return "! " + err.Error()
	}
	value = readable(value)
	text, err := json.Marshal(value)
	must(err)
	again, err := direct.Marshal(value)
	must(err)
	return fmt.Sprintf("= %s\n> %x", text, again)
}

// A value without bytes that are not UTF-8.
func readable(value any) any {
	replace := func(text string) string { return string([]rune(text)) }
	switch value := value.(type) {
	case string:
		return replace(value)
	case []any:
		for i := range value {
			value[i] = readable(value[i])
		}
	case map[string]any:
		replaced := map[string]any{}
		for key, inside := range value {
			replaced[replace(key)] = readable(inside)
		}
		return replaced
	}
	return value
}

func encoded(text string) string {
	var value any
	must(utiljson.Unmarshal([]byte(text), &value))
	data, err := direct.Marshal(value)
	must(err)
	return fmt.Sprintf("> %x", data)
}

func diagnosed(data []byte) string {
	text, err := direct.Diagnose(data)
	if err != nil {
		return "! " + err.Error()
	}
	return "= " + text
}

type kind schema.GroupVersionKind

func (k kind) question(data []byte) string {
	return fmt.Sprintf("T %s/%s %s %x", k.Group, k.Version, k.Kind, data)
}

// Bytes as an object of a kind; nothing if they name another kind, which is not the codec's business.
func typed(kind kind, data []byte) string {
	wanted := schema.GroupVersionKind(kind)
	read := func(options ...cbor.Option) (runtime.Object, *schema.GroupVersionKind, error) {
		into, err := scheme.Scheme.New(wanted)
		must(err)
		return cbor.NewSerializer(scheme.Scheme, scheme.Scheme, options...).Decode(data, &wanted, into)
	}
	_, actual, strict := read(cbor.Strict(true))
	object, _, lax := read()
	if actual != nil && *actual != wanted {
		return ""
	}
	var lines []string
	if strict != nil && runtime.IsStrictDecodingError(strict) {
		lines = append(lines, "~ "+strict.Error())
	}
	if lax != nil {
		lines = append(lines, "! "+lax.Error())
	} else {
		text, err := json.Marshal(object)
		if err != nil {
			// What a document inside is is only seen when it is written.
			return ""
		}
		if bytes.Contains(text, []byte(`"items":null`)) {
			// Neither a schema nor a list of them: the server takes that for nothing, of JSON too.
			return ""
		}
		lines = append(lines, "= "+strings.ReplaceAll(string(text), `\ufffd`, "\ufffd"))
	}
	return strings.Join(lines, "\n")
}

// Writes the objects of the golden file in CBOR.
func writeObjects() error {
	file, err := os.Open(golden)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		return err
	}
	var all map[string]struct{ JSON string }
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	written := map[string]string{}
	read := jsonserializer.NewSerializerWithOptions(
		jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{})
	for name, each := range all {
		object, _, err := read.Decode([]byte(each.JSON), nil, nil)
		if runtime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var data bytes.Buffer
		if err := cbor.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		written[name] = base64.StdEncoding.EncodeToString(data.Bytes())
	}
	if len(written) == 0 {
		return errors.New("no objects")
	}
	text, err = json.Marshal(written)
	if err != nil {
		return err
	}
	var zipped bytes.Buffer
	writer, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := writer.Write(text); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return os.WriteFile(objects, zipped.Bytes(), 0o644)
}

func unhex(text string) []byte {
	data, err := hex.DecodeString(text)
	must(err)
	return data
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
