package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/railhead-pay/railhead/testbed/brokers"
	"github.com/railhead-pay/railhead/testbed/streams"
)

// killBrokers is "testbed brokers": a stream and a topic as rails, under kills. Its last line gives the counts
// that it is judged by.
func killBrokers(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed brokers", flag.ContinueOnError)
	o := streams.Options{Out: os.Stdout}
	flags.IntVar(&o.Payments, "payments", 20_000, "payments to be enqueued")
	flags.Uint64Var(&o.Seed, "seed", 1, "where the amounts are drawn from")
	flags.DurationVar(&o.Bound, "bound", 20*time.Minute, "end of a run that does not end by itself")
	flags.StringVar(&o.Evidence, "evidence", "build/evidence/brokers",
		"where logs and the brokers' stores go; an earlier run's are replaced")
	flags.StringVar(&o.Binaries, "binaries", "build/bin", "`folder` of railhead and testbed")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	counted, err := streams.Run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed brokers:", err)
		if !errors.Is(err, streams.ErrCount) {
			return exitTrouble
		}
	}
	fmt.Printf("brokers: %s, evidence in %s\n", counted.Faults(), o.Evidence)
	fmt.Printf("brokers: %s\n", counted)
	if err != nil {
		return exitBroken
	}
	return 0
}

// serveNATS is "testbed nats-server": the broker that is killed.
func serveNATS(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed nats-server", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:4222", "`address` of loopback")
	store := flags.String("store", "", "`folder` of the streams")
	if flags.Parse(args) != nil || flags.NArg() > 0 || *store == "" {
		return exitUsage
	}
	if err := brokers.Serve(ctx, *listen, *store); err != nil {
		fmt.Fprintln(os.Stderr, "testbed nats-server:", err)
		return exitTrouble
	}
	return 0
}

// consumeStream is "testbed stream-consumer": the consumer that is killed.
func consumeStream(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed stream-consumer", flag.ContinueOnError)
	var c streams.Consumer
	flags.StringVar(&c.Server, "server", "", "`URL` of the broker")
	flags.StringVar(&c.Stream, "stream", "", "the stream")
	flags.StringVar(&c.Database, "database", "", "connection `string` of the consumer's own database")
	flags.Float64Var(&c.Lost, "lost", 0.03, "share of its own acknowledgements that it does not send")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	if err := c.Run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "testbed stream-consumer:", err)
		return exitTrouble
	}
	return 0
}

// makeStream is "testbed stream-make": the stream of a local run.
func makeStream(ctx context.Context, args []string) int {
	return onStream(ctx, "testbed stream-make", args, streams.Make)
}

// readStream is "testbed stream-read": each message of a stream as a line of JSON.
func readStream(ctx context.Context, args []string) int {
	return onStream(ctx, "testbed stream-read", args, func(ctx context.Context, url, name string) error {
		return streams.Read(ctx, url, name, os.Stdout)
	})
}

func onStream(
	ctx context.Context, name string, args []string, do func(ctx context.Context, url, name string) error,
) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	server := flags.String("server", "", "`URL` of the server, nats://HOST:PORT")
	stream := flags.String("stream", "", "the stream")
	bound := flags.Duration("bound", time.Minute, "the longest that it may take")
	if flags.Parse(args) != nil || flags.NArg() > 0 || *server == "" || *stream == "" {
		fmt.Fprintf(os.Stderr, "%s: give -server and -stream\n", name)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, *bound)
	defer cancel()
	if err := do(ctx, *server, *stream); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return exitTrouble
	}
	return 0
}

// serveKafka is "testbed kafka-fake": the fake of Kafka that is killed.
func serveKafka(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed kafka-fake", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:9092", "`address` of loopback")
	advertise := flags.String("advertise", "127.0.0.1:9092", "`address` that clients are told to connect to")
	store := flags.String("store", "", "`folder` of the log")
	if flags.Parse(args) != nil || flags.NArg() > 0 || *store == "" {
		return exitUsage
	}
	if err := brokers.ServeKafka(ctx, *listen, *advertise, *store); err != nil {
		fmt.Fprintln(os.Stderr, "testbed kafka-fake:", err)
		return exitTrouble
	}
	return 0
}

// consumeTopic is "testbed topic-consumer": the consumer of the fake of Kafka that is killed.
func consumeTopic(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed topic-consumer", flag.ContinueOnError)
	var c streams.TopicConsumer
	flags.StringVar(&c.Server, "server", "", "`address` of the broker")
	flags.StringVar(&c.Database, "database", "", "connection `string` of the consumer's own database")
	flags.Float64Var(&c.Lost, "lost", 0.03, "share of its own commits that it does not make")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	if err := c.Run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "testbed topic-consumer:", err)
		return exitTrouble
	}
	return 0
}

// readTopic is "testbed topic-read": each record of the fake of Kafka as a line of JSON.
func readTopic(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed topic-read", flag.ContinueOnError)
	server := flags.String("server", "", "`address` of the fake, HOST:PORT")
	bound := flags.Duration("bound", time.Minute, "the longest that it may take")
	if flags.Parse(args) != nil || flags.NArg() > 0 || *server == "" {
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, *bound)
	defer cancel()
	if err := streams.ReadTopic(ctx, *server, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testbed topic-read: the fake of Kafka:", err)
		return exitTrouble
	}
	return 0
}
