package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/system"
)

// maxBody bounds a request that is not a file's content, in bytes.
const maxBody = 64 << 10

// reply carries an error over the wire.
type reply struct {
	Code  fabric.Code `json:"code"`
	Error string      `json:"error"`
}

// Handler serves a node's API.
func Handler(n Node) http.Handler {
	mux := http.NewServeMux()
	get := func(path string, f func(ctx context.Context) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r.Context())
			send(w, v, err)
		})
	}
	get("/v1/status", func(ctx context.Context) (any, error) { return n.Status(ctx) })
	get("/v1/portals", func(ctx context.Context) (any, error) { return n.Portals(ctx) })
	get("/v1/spokes", func(ctx context.Context) (any, error) { return n.Spokes(ctx) })
	get("/v1/keys", func(ctx context.Context) (any, error) { return n.Keys(ctx) })
	get("/v1/fsck", func(ctx context.Context) (any, error) { return n.Fsck(ctx) })

	post(mux, "/v1/namespaces", func(ctx context.Context, name *string) (any, error) {
		return nil, n.CreateNamespace(ctx, *name)
	})
	post(mux, "/v1/portals", func(ctx context.Context, p *system.Portal) (any, error) { return nil, n.SetPortal(ctx, *p) })
	post(mux, "/v1/portals/remove", func(ctx context.Context, name *string) (any, error) { return nil, n.RemovePortal(ctx, *name) })
	post(mux, "/v1/tokens", func(ctx context.Context, j *Join) (any, error) { return n.Token(ctx, *j) })
	post(mux, "/v1/spokes/revoke", func(ctx context.Context, name *string) (any, error) { return nil, n.Revoke(ctx, *name) })
	post(mux, "/v1/keys", func(ctx context.Context, k *system.Key) (any, error) { return nil, n.SetKey(ctx, *k) })
	post(mux, "/v1/keys/remove", func(ctx context.Context, access *string) (any, error) { return nil, n.RemoveKey(ctx, *access) })
	post(mux, "/v1/mounts", func(ctx context.Context, m *Mount) (any, error) { return nil, n.Mount(ctx, *m) })
	post(mux, "/v1/mounts/remove", func(ctx context.Context, dir *string) (any, error) { return nil, n.Unmount(ctx, *dir) })

	files(mux, n)
	return mux
}

// post serves a call whose argument is a JSON body.
func post[T any](mux *http.ServeMux, path string, f func(ctx context.Context, arg *T) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		arg := new(T)
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		if err := d.Decode(arg); err != nil {
			send(w, nil, &fabric.Error{Op: "request", Code: fabric.Invalid, Err: err})
			return
		}
		v, err := f(r.Context(), arg)
		send(w, v, err)
	})
}

// files serves a look into portals. Paths travel as a query, since a URL's path is cleaned.
func files(mux *http.ServeMux, n Node) {
	where := func(r *http.Request) (portal, path string) {
		return r.URL.Query().Get("portal"), r.URL.Query().Get("path")
	}
	mux.HandleFunc("GET /v1/list", func(w http.ResponseWriter, r *http.Request) {
		portal, path := where(r)
		v, err := n.List(r.Context(), portal, path)
		send(w, v, err)
	})
	mux.HandleFunc("GET /v1/file", func(w http.ResponseWriter, r *http.Request) {
		portal, path := where(r)
		out := &late{w: w}
		if err := n.Read(r.Context(), portal, path, out); err != nil {
			if out.begun { // the status is gone: break off, so that the client sees it
				panic(http.ErrAbortHandler)
			}
			send(w, nil, err)
		}
	})
	mux.HandleFunc("PUT /v1/file", func(w http.ResponseWriter, r *http.Request) {
		portal, path := where(r)
		send(w, nil, n.Write(r.Context(), portal, path, r.Body))
	})
	mux.HandleFunc("PUT /v1/dir", func(w http.ResponseWriter, r *http.Request) {
		portal, path := where(r)
		send(w, nil, n.MakeDir(r.Context(), portal, path))
	})
}

// late remembers whether the reply has begun.
type late struct {
	w     io.Writer
	begun bool
}

// Write implements io.Writer.
func (l *late) Write(p []byte) (int, error) {
	l.begun = true
	return l.w.Write(p)
}

// send answers with v, or with err as a reply and a status that says whose fault it is.
func send(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		status := http.StatusBadRequest
		switch fabric.CodeOf(err) {
		case fabric.Internal:
			status = http.StatusInternalServerError
		case fabric.Unavailable, fabric.Unknown:
			status = http.StatusServiceUnavailable
		case fabric.NotExist:
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		v = reply{Code: fabric.CodeOf(err), Error: err.Error()}
	}
	json.NewEncoder(w).Encode(v) // a client that left needs no answer
}

// Serve answers on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, n Node) error {
	s := &http.Server{Handler: Handler(n), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}
