package cluster

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spokefs/spokefs/e2e/harness"
)

// outage is how long a store is away: longer than the hub's attempts of one request.
const outage = 8 * time.Second

// While the store of packs is dead, or answers 503, writes wait or fail; nothing acknowledged is
// lost, and all comes good when it is back.
func TestStoreAway(t *testing.T) {
	for name, away := range map[string]func(t *testing.T, m *harness.MinIO) (front *harness.MinIO, strike func()){
		"killed": killed, "503": unavailable,
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("kills processes and takes a while")
			}
			t.Parallel() // most of its time is waiting
			front, strike := away(t, harness.OpenMinIO(t))
			p := start(t, front)
			p.strike(p.away, strike)
			p.check()
		})
	}
}

// killed is a store that dies without warning.
func killed(t *testing.T, m *harness.MinIO) (*harness.MinIO, func()) {
	return m, func() {
		m.Kill()
		time.Sleep(outage)
		if err := m.Start(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// unavailable is a store behind a proxy that answers 503 when told.
func unavailable(t *testing.T, m *harness.MinIO) (*harness.MinIO, func()) {
	to, err := url.Parse(m.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var refuse atomic.Bool
	var refused atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse.Load() {
			refused.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	front := &harness.MinIO{Endpoint: srv.URL, Access: m.Access, Secret: m.Secret, Bucket: m.Bucket}
	return front, func() {
		refuse.Store(true)
		time.Sleep(outage)
		refuse.Store(false)
		if refused.Load() == 0 {
			t.Error("the hub asked nothing of the store meanwhile")
		}
	}
}
