package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spokefs/spokefs/fabric"
)

// Version is the version of commands, results and records.
const Version = 1

// MaxCommand bounds an encoded command, in bytes.
const MaxCommand = 64 << 10

// Command is one administrative change: exactly one field but Version and Wall is set.
type Command struct {
	Version int
	Wall    fabric.Time // the proposer's stamp; decides when tokens expire

	CreateNamespace *Namespace `json:",omitempty"`
	SetPortal       *Portal    `json:",omitempty"` // creates or replaces
	RemovePortal    string     `json:",omitempty"`
	SetSpoke        *Spoke     `json:",omitempty"` // creates or replaces
	CreateToken     *Token     `json:",omitempty"`
	RedeemToken     *Redeem    `json:",omitempty"`
	SetKey          *Key       `json:",omitempty"` // creates or replaces
	RemoveKey       string     `json:",omitempty"`
}

// Redeem uses a token once.
type Redeem struct {
	Hash  [32]byte
	Spoke string
}

// Result is what Apply gives for a Command.
type Result struct {
	Version int
	Code    fabric.Code
	Why     string `json:",omitempty"` // for people
	Spoke   *Spoke `json:",omitempty"` // of RedeemToken
}

// Err is the result as an error; nil if it succeeded.
func (r Result) Err(op string) error {
	if r.Code == fabric.OK {
		return nil
	}
	e := &fabric.Error{Op: op, Code: r.Code}
	if r.Why != "" {
		e.Err = fmt.Errorf("%s", r.Why)
	}
	return e
}

// Encode gives a command's bytes for the log.
func (c Command) Encode() []byte {
	c.Version = Version
	return encode(c)
}

// DecodeResult reads a result.
func DecodeResult(p []byte) (Result, error) {
	var r Result
	err := decode(p, &r)
	return r, err
}

// encode is for our own types, none of which can fail.
func encode(v any) []byte {
	p, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("system: %v", err))
	}
	return p
}

// decode reads one JSON object and refuses unknown fields and anything after it.
func decode(p []byte, v any) error {
	if len(p) > MaxCommand {
		return &fabric.Error{Op: "decode", Code: fabric.TooBig}
	}
	d := json.NewDecoder(bytes.NewReader(p))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &fabric.Error{Op: "decode", Code: fabric.Invalid, Err: err}
	}
	if _, err := d.Token(); err != io.EOF {
		return &fabric.Error{Op: "decode", Code: fabric.Invalid, Err: fmt.Errorf("bytes after the object")}
	}
	return nil
}
