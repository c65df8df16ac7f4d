// Package brokers tries the adapters for brokers: that of NATS on real servers, that of Kafka on franz-go's
// kfake, which is a fake, and never on a real Kafka. Acknowledgements are lost, servers end and start again, a
// cluster loses its majority, the memory of keys ends, and a stream is deleted and created again. The witness is
// the stream or the topic itself.
package brokers

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ready bounds the start of a server, and the election of a leader.
const ready = time.Minute

// Server is a nats-server in this process, with its store in a folder that outlives it.
type Server struct {
	options *server.Options
	running *server.Server
}

// Start starts a server on a free port of loopback; edit may change its options.
func Start(t testing.TB, edit func(*server.Options)) *Server {
	t.Helper()
	options := &server.Options{
		Host: "127.0.0.1", Port: freePort(t), JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		ServerName: "n1", SyncAlways: true,
	}
	if edit != nil {
		edit(options)
	}
	s := &Server{options: options}
	s.Begin(t)
	t.Cleanup(s.End)
	return s
}

// Begin starts the server, on the store that it had.
func (s *Server) Begin(t testing.TB) {
	t.Helper()
	running, err := server.NewServer(s.options.Clone())
	if err != nil {
		t.Fatal(err)
	}
	running.Start()
	if !running.ReadyForConnections(ready) {
		t.Fatal("the server does not start")
	}
	s.running = running
}

// End stops the server; its store stays.
func (s *Server) End() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Reload changes options of the running server, as a reload of its file does.
func (s *Server) Reload(t testing.TB, edit func(*server.Options)) {
	t.Helper()
	edit(s.options)
	if err := s.running.ReloadOptions(s.options.Clone()); err != nil {
		t.Fatal(err)
	}
}

// URL is the server's address.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.options.Port) }

// Cluster starts three servers that know each other.
func Cluster(t testing.TB) []*Server {
	t.Helper()
	ports := []int{freePort(t), freePort(t), freePort(t)}
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	var all []*Server
	for n, port := range ports {
		all = append(all, Start(t, func(o *server.Options) {
			o.ServerName = fmt.Sprintf("n%d", n+1)
			o.Cluster = server.ClusterOpts{Name: "cell", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}))
	}
	return all
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// Stream creates the stream of a test, or fails. A cluster may take a while to elect its leader.
func Stream(t testing.TB, address string, config jetstream.StreamConfig) (stream jetstream.Stream) {
	t.Helper()
	with(t, address, func(ctx context.Context, js jetstream.JetStream) (err error) {
		for {
			// A cluster without a leader does not answer.
			try, cancel := context.WithTimeout(ctx, 3*time.Second)
			stream, err = js.CreateStream(try, config)
			cancel()
			if err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return stream
}

// Settings are those of a stream that the adapter accepts.
func Settings(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "PAYMENTS", Subjects: []string{"payments.>"}, Storage: jetstream.FileStorage, Replicas: replicas,
		Duplicates: time.Minute, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, DiscardNewPerSubject: true,
	}
}

// with calls a function with a connection to JetStream.
func with(t testing.TB, address string, do func(ctx context.Context, js jetstream.JetStream) error) {
	t.Helper()
	conn, err := natsgo.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	if err := do(ctx, js); err != nil {
		t.Fatal(err)
	}
}

// Update changes the settings of a stream.
func Update(t testing.TB, address string, config jetstream.StreamConfig) {
	t.Helper()
	with(t, address, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.UpdateStream(ctx, config)
		return err
	})
}

// Delete removes a stream with its messages.
func Delete(t testing.TB, address, name string) {
	t.Helper()
	with(t, address, func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, name) })
}

// Open returns a stream that is there.
func Open(t testing.TB, address, name string) (stream jetstream.Stream) {
	t.Helper()
	with(t, address, func(ctx context.Context, js jetstream.JetStream) (err error) {
		stream, err = js.Stream(ctx, name)
		return err
	})
	return stream
}

// MapSubject has the server publish to another subject in place of one.
func (s *Server) MapSubject(from, to string) error {
	return s.running.GlobalAccount().AddMapping(from, to)
}
