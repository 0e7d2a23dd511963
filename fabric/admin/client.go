package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/spokefs/spokefs/fabric"
	"github.com/spokefs/spokefs/fabric/system"
)

// Client is a Node reached over its socket.
type Client struct{ http *http.Client }

var _ Node = (*Client)(nil)

// Dial returns a client of the node with that socket. It connects when first used.
func Dial(socket string) *Client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, &fabric.Error{Op: "reach the node", Code: fabric.Unavailable, Err: fmt.Errorf("is it running? %w", err)}
		}
		return c, nil
	}}
	return &Client{http: &http.Client{Transport: t}}
}

// call makes one request; body and out may be nil.
func (c *Client) call(ctx context.Context, method, path string, body io.Reader, out func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://node"+path, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var r reply
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&r); err != nil {
			return fmt.Errorf("admin: the node answered %s", resp.Status)
		}
		return &fabric.Error{Op: "node", Code: r.Code, Err: fmt.Errorf("%s", r.Error)}
	}
	if out == nil {
		return nil
	}
	return out(resp.Body)
}

func into[T any](v *T) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(v) }
}

func get[T any](ctx context.Context, c *Client, path string) (v T, err error) {
	err = c.call(ctx, http.MethodGet, path, nil, into(&v))
	return v, err
}

func (c *Client) post(ctx context.Context, path string, arg any, out func(io.Reader) error) error {
	body, err := json.Marshal(arg)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPost, path, bytes.NewReader(body), out)
}

func at(route, portal, path string) string {
	return route + "?" + url.Values{"portal": {portal}, "path": {path}}.Encode()
}

// Status implements Node.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status")
}

// CreateNamespace implements Node.
func (c *Client) CreateNamespace(ctx context.Context, name string) error {
	return c.post(ctx, "/v1/namespaces", name, nil)
}

// Portals implements Node.
func (c *Client) Portals(ctx context.Context) ([]system.Portal, error) {
	return get[[]system.Portal](ctx, c, "/v1/portals")
}

// SetPortal implements Node.
func (c *Client) SetPortal(ctx context.Context, p system.Portal) error {
	return c.post(ctx, "/v1/portals", p, nil)
}

// RemovePortal implements Node.
func (c *Client) RemovePortal(ctx context.Context, name string) error {
	return c.post(ctx, "/v1/portals/remove", name, nil)
}

// Token implements Node.
func (c *Client) Token(ctx context.Context, j Join) (token string, err error) {
	err = c.post(ctx, "/v1/tokens", j, into(&token))
	return token, err
}

// Spokes implements Node.
func (c *Client) Spokes(ctx context.Context) ([]system.Spoke, error) {
	return get[[]system.Spoke](ctx, c, "/v1/spokes")
}

// Revoke implements Node.
func (c *Client) Revoke(ctx context.Context, spoke string) error {
	return c.post(ctx, "/v1/spokes/revoke", spoke, nil)
}

// SetKey implements Node.
func (c *Client) SetKey(ctx context.Context, k system.Key) error {
	return c.post(ctx, "/v1/keys", k, nil)
}

// RemoveKey implements Node.
func (c *Client) RemoveKey(ctx context.Context, access string) error {
	return c.post(ctx, "/v1/keys/remove", access, nil)
}

// Keys implements Node.
func (c *Client) Keys(ctx context.Context) ([]system.Key, error) {
	return get[[]system.Key](ctx, c, "/v1/keys")
}

// Fsck implements Node.
func (c *Client) Fsck(ctx context.Context) ([]Problem, error) {
	return get[[]Problem](ctx, c, "/v1/fsck")
}

// Mount implements Node.
func (c *Client) Mount(ctx context.Context, m Mount) error {
	return c.post(ctx, "/v1/mounts", m, nil)
}

// Unmount implements Node.
func (c *Client) Unmount(ctx context.Context, dir string) error {
	return c.post(ctx, "/v1/mounts/remove", dir, nil)
}

// List implements Node.
func (c *Client) List(ctx context.Context, portal, path string) ([]File, error) {
	return get[[]File](ctx, c, at("/v1/list", portal, path))
}

// Read implements Node.
func (c *Client) Read(ctx context.Context, portal, path string, w io.Writer) error {
	return c.call(ctx, http.MethodGet, at("/v1/file", portal, path), nil, func(r io.Reader) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// Write implements Node.
func (c *Client) Write(ctx context.Context, portal, path string, r io.Reader) error {
	return c.call(ctx, http.MethodPut, at("/v1/file", portal, path), r, nil)
}

// MakeDir implements Node.
func (c *Client) MakeDir(ctx context.Context, portal, path string) error {
	return c.call(ctx, http.MethodPut, at("/v1/dir", portal, path), nil, nil)
}
