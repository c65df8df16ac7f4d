package ha

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// chapter is the heading of the part of docs/operations.md that is run.
const chapter = "\n## Build a highly available cell\n"

// block is one console block of the chapter.
type block struct {
	step    string // the number of the step
	host    string // the words of its first line that name the hosts
	verb    string // service or stop; empty: its commands are run to their end
	service string // what the verb starts or stops
	text    string // without the first line
}

var (
	stepOrBlock = regexp.MustCompile("(?ms)^### (\\d+)\\.|^```console\n(.*?)^```$")
	firstLine   = regexp.MustCompile(`^# (each database host|db[123]|application host)(?:, (service|stop) (\w+))?$`)
)

// readPage reads the blocks of the chapter, in their order.
func readPage(path string) ([]block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, section, found := strings.Cut(string(text), chapter)
	if !found {
		return nil, fmt.Errorf("%s has no chapter %q", path, strings.TrimSpace(chapter))
	}
	section, _, _ = strings.Cut(section, "\n## ")
	step := ""
	var all []block
	for _, match := range stepOrBlock.FindAllStringSubmatch(section, -1) {
		if match[1] != "" {
			step = match[1]
			continue
		}
		first, rest, _ := strings.Cut(match[2], "\n")
		named := firstLine.FindStringSubmatch(first)
		if named == nil || step == "" {
			return nil, fmt.Errorf("%s: step %q: a block is below a numbered heading, and its first line names the hosts: %q",
				path, step, first)
		}
		one := block{step: step, host: named[1], verb: named[2], service: named[3], text: rest}
		if one.verb == "service" && strings.Count(rest, "\n") != 1 {
			return nil, fmt.Errorf("%s: step %s: a service is one line: %q", path, step, rest)
		}
		all = append(all, one)
	}
	return all, nil
}
