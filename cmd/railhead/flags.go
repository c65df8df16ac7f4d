package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// numberFlag adds a flag for a whole number, from least to most. What it had before is its default.
func numberFlag(command *cobra.Command, into *int, name string, least, most int, help string) {
	command.Flags().Var(&number{into, least, most}, name, help)
}

// number is a whole number in decimal digits. A sign, another base (0x2, 010) or a number out of its bounds is refused,
// and never one that means something else, such as "any".
type number struct {
	into        *int
	least, most int
}

func (n *number) Set(text string) error {
	value, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(value) != text || value < n.least || value > n.most {
		return fmt.Errorf("use a whole number in decimal digits, %d to %d", n.least, n.most)
	}
	*n.into = value
	return nil
}

func (n *number) String() string {
	if n.into == nil {
		return "0"
	}
	return strconv.Itoa(*n.into)
}

func (n *number) Type() string { return "int" }

// spanFlag adds a flag for a length of time. 0 is one of its values only if least is: it must not be taken for a flag
// that was left out.
func spanFlag(flags *pflag.FlagSet, into *time.Duration, name string, least, most time.Duration, help string) {
	flags.Var(&timeSpan{into, least, most}, name, help)
}

// spanMost is the most that a span which has no other bound may be.
const spanMost = math.MaxInt64

// timeSpan is a length of time within its bounds.
type timeSpan struct {
	into        *time.Duration
	least, most time.Duration
}

func (s *timeSpan) Set(text string) error {
	value, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("use a length of time with its unit, such as 90s, 30m or 24h, and not a moment")
	case value < s.least && s.most == spanMost:
		return fmt.Errorf("use at least %s", s.least)
	case value < s.least || value > s.most:
		return fmt.Errorf("use %s to %s", s.least, s.most)
	}
	*s.into = value
	return nil
}

func (s *timeSpan) String() string {
	if s.into == nil || *s.into == 0 {
		return "0"
	}
	return s.into.String()
}

func (s *timeSpan) Type() string { return "duration" }

// refuseEmpty refuses a flag that was given without a value: a variable of a script without one would otherwise leave a
// filter, or a deadline, out.
func refuseEmpty(cmd *cobra.Command) error {
	var empty error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if empty == nil && isEmpty(flag.Value) {
			empty = fmt.Errorf("--%s was given without a value, as by a variable that is empty: give it one, or leave the "+
				"flag out", flag.Name)
		}
	})
	return empty
}

// isEmpty reports whether a text, or one of a list of texts, is empty.
func isEmpty(value pflag.Value) bool {
	list, several := value.(pflag.SliceValue)
	if !several {
		return value.String() == "" || value.Type() == "stringToString" && value.String() == "[]"
	}
	if slices.Contains(list.GetSlice(), "") {
		return true
	}
	return len(list.GetSlice()) == 0
}
