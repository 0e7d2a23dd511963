package wire

import (
	"bytes"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spokefs/spokefs/fabric/namespace"
	"github.com/spokefs/spokefs/fabric/rights"
	pb "github.com/spokefs/spokefs/proto/spokefs/v1"
	"github.com/spokefs/spokefs/storage"
)

// FuzzMessages: what comes from the other end is refused or means the same when it is sent on.
func FuzzMessages(f *testing.F) {
	seed := func(m proto.Message) {
		p, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	seed(putBlob(&storage.Blob{Ref: storage.Ref{Len: 1}, Kind: storage.Chunk, Form: storage.Raw, Data: []byte{1}}))
	seed(putMessage(&rights.Recall{Ino: 1, Kind: rights.Shared, Seq: 2, Name: "x"}))
	seed(putMessage(&rights.Waiting{Ino: 1}))
	seed(&pb.MissingRequest{Refs: putRefs([]storage.Ref{{Len: 1}, {Len: 2}})})
	seed(&pb.ConnectRequest{Namespace: "x", Old: namespace.AppendTicket(nil, &namespace.Ticket{Epoch: 1})})
	seed(&pb.AcquireRequest{Wants: []*pb.Want{{Ino: 1, Right: 99, Wait: true}}})
	f.Fuzz(func(t *testing.T, p []byte) {
		checkRequests(t, p)
		if refs, err := getRefs(p); err == nil && !bytes.Equal(putRefs(refs), p) {
			t.Error("refs changed")
		}
		var frame pb.Frame
		if proto.Unmarshal(p, &frame) == nil {
			if b, err := getBlob(&frame); err == nil {
				again, err := getBlob(putBlob(&b))
				if err != nil || !reflect.DeepEqual(again, b) {
					t.Errorf("%v, then %v, %v", b, again, err)
				}
			}
		}
		var event pb.Event
		if proto.Unmarshal(p, &event) == nil {
			if m := getMessage(&event); m != nil && !reflect.DeepEqual(getMessage(putMessage(m)), m) {
				t.Errorf("%v changed", m)
			}
		}
	})
}

// checkRequests reads p as the requests that hold values of ours.
func checkRequests(t *testing.T, p []byte) {
	var missing pb.MissingRequest
	if proto.Unmarshal(p, &missing) == nil {
		if refs, err := getRefs(missing.Refs); err == nil && !bytes.Equal(putRefs(refs), missing.Refs) {
			t.Error("refs of Missing changed")
		}
	}
	var connect pb.ConnectRequest
	if proto.Unmarshal(p, &connect) == nil {
		if old, err := namespace.DecodeTicket(connect.Old); err == nil && !bytes.Equal(namespace.AppendTicket(nil, &old), connect.Old) {
			t.Errorf("ticket %v changed", old)
		}
	}
	var acquire pb.AcquireRequest
	if proto.Unmarshal(p, &acquire) == nil {
		for _, w := range each(acquire.Wants, getWant) {
			if getWant(putWant(w)) != w {
				t.Errorf("%v changed", w)
			}
		}
	}
}

func TestBadFrames(t *testing.T) {
	ref := storage.Ref{Len: 1}.Append(nil)
	for name, f := range map[string]*pb.Frame{
		"none":       nil,
		"short ref":  {Ref: ref[1:]},
		"long ref":   {Ref: append([]byte{0}, ref...)},
		"large kind": {Ref: ref, Kind: 256},
		"large form": {Ref: ref, Form: 1 << 31},
	} {
		if _, err := getBlob(f); err != storage.ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m := getMessage(&pb.Event{Message: &pb.Event_Recall{Recall: &pb.Recall{Ino: 1, Kind: 77}}}); m.(*rights.Recall).Kind != rights.Take {
		t.Errorf("an unknown recall is %v", m)
	}
	if getMessage(&pb.Event{}) != nil || getMessage(nil) != nil {
		t.Error("an empty event means something")
	}
	if r := getRight(0xffffffff); r != rights.R|rights.D|rights.W {
		t.Errorf("rights %x", r)
	}
}
