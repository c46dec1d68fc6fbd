package main

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// Data items, most of which are those of RFC 8949's appendix A and F.
var writtenValues = []string{
	// Nothing, and items that break off.
	"", "18", "19", "1a00", "1b00000000000000", "38", "58", "78", "98", "9a01ff00", "b8", "d8", "d9d9", "d9d9f7", "f8", "f900",
	"fa0000", "fb000000", "41", "61", "5affffffff00", "5bffffffffffffffff010203", "7affffffff00", "7b7fffffffffffffff010203",
	"81", "818181818181818181", "8200", "a1", "a20102", "a100", "a2000000", "c0", "9f", "9f0102", "bf", "bf01020102",
	"819f", "9f8000", "9f9f9f9f9fffffffff", "5f4100", "7f6100", "9f819f819f9fffffff", "9b8000000000000000", "bb8000000000000000",
	"9a80000000", "ba00200001", "5b8000000000000000",
	// What is reserved, and ends of nothing.
	"1c", "1d", "1e", "3c", "3d", "3e", "5c", "5d", "5e", "7c", "7d", "7e", "9c", "9d", "9e", "bc", "bd", "be", "dc", "dd", "de",
	"fc", "fd", "fe", "f800", "f801", "f818", "f81f", "1f", "3f", "df", "ff", "81ff", "8200ff", "a1ff", "a1ff00", "a100ff", "a20000ff",
	"9f81ff", "9f829f819f9fffffffff", "bf00ff", "bf000000ff", "5f00ff", "5f21ff", "5f6100ff", "5f80ff", "5fa0ff", "5fc000ff", "5fe0ff",
	"7f4100ff", "5f5f4100ffff", "7f7f6100ffff",
	// More than one item.
	"0000", "f6f6", "d9d9f7f6f6", "a0a0",
	// Whole numbers.
	"00", "01", "0a", "17", "1818", "1819", "1864", "1903e8", "1a000f4240", "1b000000e8d4a51000", "1b7fffffffffffffff",
	"1b8000000000000000", "1bffffffffffffffff", "20", "29", "3863", "3903e7", "3b7fffffffffffffff", "3b8000000000000000",
	"3bffffffffffffffff", "1800", "1b0000000000000001", "c249010000000000000000", "c349010000000000000000", "c240", "c200",
	// Floats.
	"f90000", "f98000", "f93c00", "fb3ff199999999999a", "f93e00", "f97bff", "fa47c35000", "fa7f7fffff", "fb7e37e43c8800759c",
	"f90001", "f90400", "f9c400", "fbc010666666666666", "f97c00", "f97e00", "f9fc00", "fa7f800000", "fa7fc00000", "faff800000",
	"fb7ff0000000000000", "fb7ff8000000000000", "fbfff0000000000000", "f903ff", "fa33800000", "fa33000000", "fa387fc000", "fa38800000",
	"fa477fe000", "fa47800000", "fb0000000000000001", "fb7fefffffffffffff", "fb36a0000000000000", "fb4330000000000001",
	// Simple values.
	"f4", "f5", "f6", "f7", "e0", "f0", "f3", "f820", "f8ff",
	// Strings.
	"40", "4401020304", "60", "6161", "6449455446", "62225c", "62c3bc", "63e6b0b4", "64f0908591", "61ff", "41ff", "62c328", "44f0288cbc",
	"5f42010243030405ff", "7f657374726561646d696e67ff", "5fff", "7fff", "7f61c361bcff", "7f61ff6161ff", "450a0d095c27",
	"6a3c3e26e280a8e280a90a",
	// Tags.
	"c074323031332d30332d32315432303a30343a30305a", "c11a514b67b0", "c1fb41d452d9e8200000", "c120", "c1f97c00", "c1f4", "c100",
	"c11b8000000000000000", "c13b8000000000000000", "c13bffffffffffffffff", "c11b000000ffffffffff", "c1fbc20c6b5d29000000",
	"c04161", "c06161", "c06161", "c00a", "c0f6", "c078193230323430312d30312d30315430303a30303a30302b30303a3030",
	"c07819323032342d30312d30325430333a30343a30352b30323a3030", "c07819323032342d30312d30325430333a30343a30352d30303a3030",
	"c0781e323032342d30312d30325430333a30343a30352e313230303030303030305a", "c076323032342d30312d30325430333a30343a30352c355a",
	"c073323032342d30312d30325430333a30343a30355a", "c07819323032342d30312d30325430333a30343a30352b32353a3030",
	"d74401020304", "d64401020304", "d54401020304", "d6d54401020304", "d5d6423f3f", "d683424142d5423f3fd78141ff", "d640", "d6f6", "d66161",
	"d818456449455446", "d82076687474703a2f2f7777772e6578616d706c652e636f6d", "d9d9f700", "d9d9f7d9d9f780", "d86301", "d863d9d9f74161",
	"d6a1416141ff", "d6a141ff4161", "d6d9d9f74161", "c6c04161", "c0c06161", "81c06161", "d9d9f7c06161",
	// Lists and maps.
	"80", "83010203", "8301820203820405", "98190102030405060708090a0b0c0d0e0f101112131415161718181819", "a0", "a201020304",
	"a26161016162820203", "826161a161626163", "a56161614161626142616361436164614461656145", "9fff", "9f018202039f0405ffff",
	"9f01820203820405ff", "83018202039f0405ff", "bf61610161629f0203ffff", "826161bf61626163ff", "bf6346756ef563416d7421ff",
	"a2416101416102", "a2416101616102", "a3416101416202416103", "a2a0014161a0", "a1f601", "a2f601f602", "a1f70a", "a1f401", "a1800a",
	"a2d641ff014161d641fe", "a1c1000a", "a1fb7ff80000000000000a", "a2416101f602", "a14161a2416101416102", "82a24161014161021bffffffffffffffff",
	"821bffffffffffffffff3bffffffffffffffff", "a2411bffffffffffffffffff", "a200010002", "a3000102034161a24161014161f7",
	"bf416101416102ff", "bf4161014161024163034163ffff", "a3416101416102416103",
}

// Values without a type, as JSON has them.
var writtenJSON = []string{
	`null`, `true`, `false`, `0`, `23`, `24`, `255`, `256`, `65535`, `65536`, `4294967295`, `4294967296`, `9223372036854775807`,
	`-1`, `-24`, `-25`, `-256`, `-257`, `-9223372036854775808`, `9223372036854775808`, `1.0`, `1.5`, `0.1`, `-0.0`, `65504.0`, `65505.0`,
	`100000.0`, `1e300`, `5.960464477539063e-8`, `2.9802322387695312e-8`, `6.103515625e-5`, `6.097555160522461e-5`, `3.4028234663852886e38`,
	`3.402823466385289e38`, `1e-45`, `1e-46`, `5e-324`, `2.5e-45`, `0.333251953125`, `33554433.0`, `0.00006100535392761230`,
	`""`, `"a"`, `"ä€😀"`, `"aaaaaaaaaaaaaaaaaaaaaaa"`, `"aaaaaaaaaaaaaaaaaaaaaaaa"`, `[]`, `{}`, `[1,[2.5,null],"x"]`,
	`{"b":1,"a":2,"aa":3,"":4,"B":5,"ab":6}`, `{"kind":"List","apiVersion":"v1","items":[],"metadata":{}}`,
	`{"aaaaaaaaaaaaaaaaaaaaaaa":1,"aaaaaaaaaaaaaaaaaaaaaaaa":2,"b":3,"é":4,"zz":5}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`,
}

// An object to be changed, and bytes that are read as one of its kind.
type sample struct {
	text    string
	written []string
}

func (s sample) object() (runtime.Object, *schema.GroupVersionKind) {
	read := jsonserializer.NewSerializerWithOptions(
		jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{Strict: true})
	object, kind, err := read.Decode([]byte(s.text), nil, nil)
	must(err)
	return object, kind
}

func (s sample) kind() kind {
	_, found := s.object()
	return kind(*found)
}

func (s sample) cbor() []byte {
	object, _ := s.object()
	var data bytes.Buffer
	must(cbor.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &data))
	return data.Bytes()
}

var samples = []sample{
	{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b","c":"d"},"creationTimestamp":"2024-01-02T03:04:05Z",
		"managedFields":[{"manager":"m","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]},
		"data":{"k":"v","l":""},"binaryData":{"b":"AQI="},"immutable":true}`, []string{
		"", "f6", "d9d9f7f6", "f7", "80", "00", "f5", "4161", "6161", "c1a0", "a0", "bfff", "d6a0", "d86380", "c0a0", "ff", "a1", "a0a0",
		// kind, metadata and apiVersion of other types.
		"a1446b696e6400", "a1446b696e64f6", "a1446b696e64f7", "a1646b696e6440", "a1686d65746164617461f6", "a1686d65746164617461f7",
		"a1686d6574616461746180", "a1686d65746164617461f5", "a16a61706956657273696f6ef4", "a16a61706956657273696f6efb3ff8000000000000",
		// Names in letters of another case, keys that are no strings.
		"a1444b696e644161", "a10000", "a12000", "a13bffffffffffffffff00", "a1f600", "a1f400", "a1f93c0000", "a18000", "a1c2414100",
		"a2000000f4", "a20000006161", "a2f600f600", "a3f6004161004161f6", "a241610041610041", "a2416100416101", "a2d6416101d6416102",
		// Text in bytes, twice, with data.
		"a2446461746100446461746100", "a24464617461a04464617461a0", "a14464617461a2416141624161f6", "a14464617461a34161416241620041634164",
		"a14464617461a1416161ff", "a14464617461a1416141ff", "a14464617461a141ff4161", "a14464617461a2416141624163f6", "a14464617461a1f64161",
		"a14464617461a14161d64161", "a14464617461a14161d54161", "a14464617461a14161d74161", "a14464617461d6a141614162", "d6a14464617461a141614162",
		"a14464617461a2416141624161", "a14464617461a10041", "a14464617461a1004161", "a14464617461a14161c06161", "a14464617461a14161c04161",
		"a14a62696e61727944617461a1416144415149", "a14a62696e61727944617461a141614441514936", "a14a62696e61727944617461a14161d6420102",
		"a14a62696e61727944617461a141614441513d3d", "a14a62696e61727944617461a14161f6", "a14a62696e61727944617461a141616441513d3d",
		"a14a62696e61727944617461a1416183010203", "a14a62696e61727944617461a141618301020318", "a14a62696e61727944617461a14161821901002041",
		"a14a62696e61727944617461a1416182190100f6", "a14a62696e61727944617461a1416182f600", "a14a62696e61727944617461a1416182f4f93c00",
		"a14a62696e61727944617461a14161d683010203", "a14a62696e61727944617461d6a1416144010203ff", "a14a62696e61727944617461a141614a41510d0a513d3d0a0d0a",
		"a149696d6d757461626c65f6", "a149696d6d757461626c65f7", "a149696d6d757461626c6500", "a149696d6d757461626c65f818", "a149696d6d757461626c65f820",
		"a149696d6d757461626c65d863f5", "a149696d6d757461626c65c1f5",
	}},
	{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","generation":3,"deletionGracePeriodSeconds":0},"spec":{"containers":[{"name":"c",
		"image":"i","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"100m","memory":"1Gi"}},"livenessProbe":{"httpGet":{"port":"http"},
		"periodSeconds":5}}],"restartPolicy":"Always","priority":0,"hostNetwork":true,"activeDeadlineSeconds":7},"status":{"phase":"Running",
		"startTime":"2024-01-02T03:04:05Z"}}`, nil},
	{`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"name":"p","port":80,"targetPort":"http"},{"name":"q",
		"port":81,"targetPort":8080}],"clusterIPs":["10.0.0.1"],"selector":{"a":"b"}}}`, nil},
	{`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"type":"Opaque","data":{"a":"AQIDBA==","b":""},"stringData":{"c":"d"}}`, nil},
	{`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{"holderIdentity":"h","leaseDurationSeconds":15,
		"renewTime":"2024-01-02T03:04:05.123456Z"}}`, nil},
	{`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},
		"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{
		"name":"c","image":"i","env":[{"name":"A","value":"B"}]}]}}}}`, nil},
	{`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a"},"data":{"spec":{"b":1,"a":[2.5,null]},"z":"<"},"revision":4}`, nil},
	{`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"group":"g","names":{"kind":"K",
		"plural":"ks"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
		"properties":{"a":{"type":"array","items":{"type":"string"},"default":["x",1,{"b":null}]},"b":{"additionalProperties":true,
		"minimum":1.5,"enum":[1,"a"]},"c":{"additionalProperties":{"type":"number","maximum":2}}}}}}]}}`, nil},
	{`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"a"},"spec":{"request":"AQI=",
		"signerName":"s","extra":{"k":["v","w"]},"usages":["any"],"expirationSeconds":600}}`, nil},
	{`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},"spec":{"maxReplicas":3,"minReplicas":1,
		"metrics":[{"type":"External","external":{"metric":{"name":"m"},"target":{"type":"Value","value":"1500m"}}}],"scaleTargetRef":{"kind":"K","name":"n"}}}`, nil},
	{`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"a"},"eventTime":"2024-01-02T03:04:05.000000Z","regarding":{"kind":"Pod"},
		"deprecatedFirstTimestamp":"2024-01-02T03:04:05Z","deprecatedCount":2}`, nil},
}
