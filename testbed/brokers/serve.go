package brokers

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// Serve runs a nats-server at an address of loopback, HOST:PORT, with its store in a folder, until the
// context ends. It flushes each message to the disk before it acknowledges it. A process that is killed
// can be started again on its folder.
func Serve(ctx context.Context, address, store string) error {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	running, err := server.NewServer(&server.Options{
		Host: host, Port: port, JetStream: true, StoreDir: store, NoSigs: true, ServerName: "n1", SyncAlways: true,
	})
	if err != nil {
		return err
	}
	running.ConfigureLogger()
	running.Start()
	if !running.ReadyForConnections(ready) {
		return errors.New("the server does not start")
	}
	<-ctx.Done()
	running.Shutdown()
	running.WaitForShutdown()
	return nil
}
