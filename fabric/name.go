package fabric

import "strings"

// CheckName says whether name can be an entry: Invalid if it is empty, "." or "..", or has '/'
// or NUL; NameTooLong over MaxName bytes; else OK.
func CheckName(name string) Code {
	if len(name) > MaxName {
		return NameTooLong
	}
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return Invalid
	}
	return OK
}
