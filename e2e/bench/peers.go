package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// peerCred is the key of the S3 servers that are compared with.
const peerCred = "benchbench"

// reachable waits until a server takes connections, or has ended.
func reachable(ctx context.Context, n *process, addr string) error {
	for {
		c, err := n.at.dial(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case e := <-n.done:
			n.done <- e
			return errors.Join(fmt.Errorf("%s ended: %w", n.name, e), n.tail())
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// peer starts another server and waits for its port. What it says is not read.
func (b *bench) peer(ctx context.Context, name string, env []string, addr, program string, args ...string) (*process, error) {
	n, out, err := launch(b.dir, name, b.home, env, program, args...)
	if err != nil {
		return nil, err
	}
	go func() {
		for out.Scan() {
		}
		n.done <- n.cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := reachable(ctx, n, addr); err != nil {
		n.cmd.Process.Kill()
		return nil, err
	}
	return n, nil
}

// port finds one that is free in the machine's own network; in ours all are.
func (b *bench) port(in int) (int, error) {
	if b.home != nil {
		return in, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// s3Peers starts the S3 servers that are installed: versitygw on the local files themselves, MinIO
// on a copy. Their programs are named as for the tests.
func (w *near) s3Peers(ctx context.Context) (out []s3Server, stop func(), err error) {
	var nodes []*process
	stop = func() {
		for _, n := range nodes {
			n.cmd.Process.Kill()
			<-n.done
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if !w.cfg.Peers {
		return nil, stop, nil
	}
	start := func(name, variable string, port int, env []string, args ...string) (*object, error) {
		program := os.Getenv(variable)
		if program == "" {
			w.say("%s is not set: without %s", variable, name)
			return nil, nil
		}
		port, err := w.port(port)
		if err != nil {
			return nil, err
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		for i := range args {
			if args[i] == "ADDR" {
				args[i] = addr
			}
		}
		n, err := w.peer(ctx, name, env, addr, program, args...)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
		o := newObject(w.home, addr, "local", peerCred, peerCred)
		out = append(out, s3Server{name, o})
		return o, nil
	}
	side := filepath.Join(w.dir, "sidecar")
	if err := os.MkdirAll(side, 0o755); err != nil {
		return nil, stop, err
	}
	if _, err := start("versitygw", "SPOKEFS_VERSITYGW", 7071, nil, "--port", "ADDR", "--access", peerCred, "--secret", peerCred,
		"--region", "us-east-1", "--quiet", "posix", "--sidecar", side, filepath.Dir(w.bench.local)); err != nil {
		return nil, stop, err
	}
	env := []string{"MINIO_ROOT_USER=" + peerCred, "MINIO_ROOT_PASSWORD=" + peerCred, "MINIO_BROWSER=off", "MINIO_UPDATE=off"}
	o, err := start("minio", "SPOKEFS_MINIO", 9000, env, "server", "--quiet", "--address", "ADDR", "--console-address", "127.0.0.1:0", filepath.Join(w.dir, "minio"))
	if o != nil && err == nil {
		err = w.fill(ctx, o)
	}
	return out, stop, err
}

// fill puts into an empty S3 server what the comparison needs.
func (w *near) fill(ctx context.Context, o *object) error {
	for { // it takes connections before it is ready
		_, err := o.s3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &o.bucket})
		if err == nil {
			break
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
	files := append(refs(w.data.small), &w.data.shards[0])
	return each(ctx, writers, len(files), func(ctx context.Context, _, i int) error {
		f, err := os.Open(mounted{dir: w.bench.local}.at(files[i]))
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = o.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &o.bucket, Key: &files[i].path, Body: f})
		return err
	})
}

// nfsPeers starts the NFS servers that are installed, on the local files.
func (w *near) nfsPeers(ctx context.Context) (out []nfsServer, stop func(), err error) {
	stop = func() {
		for _, s := range out {
			s.r.close()
			s.node.stop()
		}
	}
	if !w.cfg.Peers {
		return nil, stop, nil
	}
	if w.home != nil {
		if _, err := exec.LookPath("ganesha.nfsd"); err == nil {
			s, err := w.ganesha(ctx)
			if err != nil {
				return out, stop, err
			}
			out = append(out, *s)
		}
	}
	if w.cfg.GoNFS != "" {
		port, err := w.port(20490)
		if err != nil {
			return out, stop, err
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		n, err := w.peer(ctx, "go-nfs", nil, addr, w.cfg.GoNFS, addr, w.bench.local)
		if err != nil {
			return out, stop, err
		}
		r, err := dialNFS(ctx, w.home, addr, addr, "/", 1)
		if err != nil {
			return out, stop, errors.Join(err, n.stop())
		}
		out = append(out, nfsServer{name: "go-nfs", node: n, r: r})
	}
	return out, stop, nil
}

// ganesha starts nfs-ganesha in our network with a port mapper, which it insists on. Both have a
// /run of their own, and end together: they hold copies of our mounts.
func (w *near) ganesha(ctx context.Context) (*nfsServer, error) {
	const port = 20491
	conf := filepath.Join(w.dir, "ganesha.conf")
	text := fmt.Sprintf(`NFS_CORE_PARAM { NFS_Port = %d; MNT_Port = %d; Protocols = 3; Enable_NLM = false; Enable_RQUOTA = false; Bind_addr = 127.0.0.1; }
EXPORT { Export_Id = 1; Path = %s; Pseudo = /local; Protocols = 3; Access_Type = RO; Squash = None; SecType = sys; FSAL { Name = VFS; } }
LOG { Default_Log_Level = WARN; }
`, port, port+1, w.bench.local)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	script := `mount -t tmpfs t /run && mkdir -p /run/rpcbind /run/ganesha && { rpcbind -w -f & } && sleep 0.2 && exec ganesha.nfsd -F -f "$1" -L "$2" -p /run/ganesha/pid`
	n, err := w.peer(ctx, "ganesha", nil, fmt.Sprintf("127.0.0.1:%d", port+1), "unshare", "-m", "sh", "-c", script, "sh", conf, filepath.Join(w.dir, "ganesha.txt"))
	if err != nil {
		return nil, err
	}
	r, err := dialNFS(ctx, w.home, fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", port+1), w.bench.local, 1)
	if err != nil {
		return nil, errors.Join(err, n.stop())
	}
	return &nfsServer{name: "nfs-ganesha", node: n, r: r}, nil
}
