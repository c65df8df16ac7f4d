// Command testbed runs whole installations, breaks them on purpose, and judges what became of the
// money by what the simulated banks have written down: see the packages of this module. Its
// sub-commands are what make money, api, events, brokers, recovery, faults, nemesis, ha, cells, mutants and alerts
// call, at the root of the repository.
//
// Each exits with 0 where all is well, with 8 where something did not hold, with 2 for a wrong
// command line, and with 1 where it could not be run.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// Exit codes.
const (
	exitTrouble = 1
	exitUsage   = 2
	exitBroken  = 8 // a rule did not hold, or a fault was never hit
)

var commands = []struct {
	name, about string
	run         func(ctx context.Context, args []string) int
}{
	{"money", "pay thousands with random faults, then as many without, and count by the banks' ledgers", payMoney},
	{"api", "break API, database and relayer under callers over HTTP", callAPI},
	{"events", "tell an endpoint that loses answers of outcomes, under faults", events},
	{"brokers", "kill relayers, brokers and consumers of a stream and a topic that are rails", killBrokers},
	{"recovery", "measure how long the payments of a killed relayer wait", recovery},
	{"faults", "break whole installations, one fault and one seed at a time", breakAll},
	{"nemesis", "mix every fault that can be mixed on one installation", nemesis},
	{"ha", "lose the primary of a highly available cell again and again", failOver},
	{"cells", "break several cells while buckets change their cell", breakCells},
	{"mutants", "take each guard out of a copy, and see what notices", removeGuards},
	{"alerts", "break a running installation in one way for each alert", drillAlerts},
	{"console", "go through every page and act of the console with a browser", walkConsole},
	{"console-clicks", "go from the console's first page to the cause, runbook and act of each fault of the alerts", clickConsole},
	{"screenshots", "take pictures of the pages of the console", photographConsole},
	{"console-scale", "measure how soon pages of the console are painted with a large archive", scaleConsole},
	{"caller", "the ingest client that faults start", caller},
	{"nats-server", "the broker that brokers and railhead dev start", serveNATS},
	{"kafka-fake", "the fake of Kafka that brokers and railhead dev start: franz-go's kfake", serveKafka},
	{"stream-consumer", "the consumer of NATS that brokers starts", consumeStream},
	{"topic-consumer", "the consumer of the fake of Kafka that brokers starts", consumeTopic},
	{"stream-make", "make the stream of a local run", makeStream},
	{"stream-read", "print the messages of a stream", readStream},
	{"topic-read", "print the records of the fake of Kafka", readTopic},
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	// The proxies' library logs each of its steps to the output.
	zerolog.SetGlobalLevel(zerolog.Disabled)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, command := range commands {
		if len(args) > 0 && args[0] == command.name {
			return command.run(ctx, args[1:])
		}
	}
	if len(args) == 1 && (args[0] == "help" || args[0] == "-help" || args[0] == "--help" || args[0] == "-h") {
		usage(os.Stdout)
		return 0
	}
	usage(os.Stderr)
	return exitUsage
}

func usage(to io.Writer) {
	fmt.Fprint(to, "testbed COMMAND [FLAGS]; testbed COMMAND -help says which flags\n\n")
	for _, command := range commands {
		fmt.Fprintf(to, "  %-15s %s\n", command.name, command.about)
	}
}
