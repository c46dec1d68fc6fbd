module kevel.dev/conformance/certificates

go 1.26
