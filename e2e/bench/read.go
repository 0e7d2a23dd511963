package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"
)

// reader reads whole files by one protocol. Calls may overlap.
type reader interface {
	// read puts a file's bytes into buf, which has room for them, and gives how many they are.
	read(ctx context.Context, f *file, buf []byte) (int, error)
}

// mounted reads by the kernel: a local folder, or a mount. It calls the kernel itself, as programs
// in C do; Go's files would poll.
type mounted struct {
	dir   string
	size  int    // of one call, bytes
	cache string // where its server keeps what it serves; "": nowhere else
}

func (m mounted) at(f *file) string { return filepath.Join(m.dir, filepath.FromSlash(f.path)) }

func (m mounted) read(_ context.Context, f *file, buf []byte) (n int, err error) {
	fd, err := open(m.at(f))
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for {
		k, err := again(func() (int, error) { return unix.Read(fd, buf[n:min(n+m.size, len(buf))]) })
		n += k
		if err != nil || k == 0 {
			return n, err
		}
	}
}

func open(name string) (int, error) {
	fd, err := again(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return fd, fmt.Errorf("open %s: %w", name, err)
	}
	return fd, nil
}

// again makes a call of the kernel until no signal breaks it off.
func again(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// drop makes the kernel forget the pages of files that are clean.
func drop(names []string) error {
	for _, name := range names {
		fd, err := open(name)
		if err != nil {
			return err
		}
		err = errors.Join(unix.Fdatasync(fd), unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("drop the pages of %s: %w", name, err)
		}
	}
	return nil
}

// object reads by S3.
type object struct {
	s3     *s3.Client
	bucket string
	idle   func() // closes connections: servers that stop wait for those they have seen nothing of
}

func newObject(at *site, addr, bucket, access, secret string) *object {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext, t.MaxIdleConnsPerHost, t.Proxy = at.dial, 64, nil
	return &object{bucket: bucket, idle: t.CloseIdleConnections, s3: s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + addr), Region: "us-east-1", UsePathStyle: true, HTTPClient: &http.Client{Transport: t},
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
	})}
}

func (o *object) read(ctx context.Context, f *file, buf []byte) (int, error) {
	return o.get(ctx, &s3.GetObjectInput{Bucket: &o.bucket, Key: &f.path}, buf)
}

// ranged reads len(buf) bytes at off.
func (o *object) ranged(ctx context.Context, f *file, off int64, buf []byte) (int, error) {
	return o.get(ctx, &s3.GetObjectInput{Bucket: &o.bucket, Key: &f.path,
		Range: aws.String(fmt.Sprintf("bytes=%d-%d", off, off+int64(len(buf))-1))}, buf)
}

func (o *object) get(ctx context.Context, in *s3.GetObjectInput, buf []byte) (int, error) {
	got, err := o.s3.GetObject(ctx, in)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	n, err := io.ReadFull(got.Body, buf)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = nil
	}
	return n, err
}

// list lists the bucket and counts the keys.
func (o *object) list(ctx context.Context, prefix string) (n int, err error) {
	pages := s3.NewListObjectsV2Paginator(o.s3, &s3.ListObjectsV2Input{Bucket: &o.bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return n, err
		}
		n += len(page.Contents)
	}
	return n, nil
}

// pass is one reading of files.
type pass struct {
	files   int
	bytes   int64
	seconds float64
}

func (p pass) rate() float64 { return float64(p.files) / p.seconds }

func (p pass) mb() float64 { return float64(p.bytes) / 1e6 / p.seconds }

// readAll reads files by several workers, in the given order, and holds each against its sum. One
// worker's time is that of its reads alone; of several, the comparing (a few per cent) counts too.
func readAll(ctx context.Context, r reader, files []*file, workers int) (pass, error) {
	p := pass{files: len(files), bytes: bytesOf(files)}
	most := int64(0)
	for _, f := range files {
		most = max(most, f.size)
	}
	bufs := make([][]byte, workers)
	for i := range bufs {
		bufs[i] = make([]byte, most+1) // one more, to see a file that is too long
		clear(bufs[i])                 // its pages are paid for now
	}
	var reading time.Duration // of the one worker
	began := time.Now()
	err := each(ctx, workers, len(files), func(ctx context.Context, worker, i int) error {
		asked := time.Now()
		n, err := r.read(ctx, files[i], bufs[worker])
		if err != nil {
			return fmt.Errorf("read %s: %w", files[i].path, err)
		}
		if workers == 1 {
			reading += time.Since(asked)
		}
		return files[i].intact(bufs[worker][:n])
	})
	p.seconds = time.Since(began).Seconds()
	if workers == 1 {
		p.seconds = reading.Seconds()
	}
	return p, err
}

// each calls f for 0 to n-1 by several workers, and returns the first error.
func each(ctx context.Context, workers, n int, f func(ctx context.Context, worker, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(ctx, w, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// shuffled gives files in the order of an epoch.
func shuffled(files []*file, epoch uint64) []*file {
	out := append([]*file(nil), files...)
	rand.New(rand.NewPCG(epoch, 6)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// sums gives the hash of each piece of size bytes of a local file.
func sums(ctx context.Context, dir string, f *file, size int) ([]uint64, error) {
	buf := make([]byte, f.size+1)
	n, err := mounted{dir: dir, size: 1 << 20}.read(ctx, f, buf)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for p := buf[:n]; len(p) > 0; p = p[min(size, len(p)):] {
		out = append(out, xxh3.Hash(p[:min(size, len(p))]))
	}
	return out, f.intact(buf[:n])
}
