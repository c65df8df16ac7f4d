package main

import (
	"fmt"
	"slices"
	"strconv"

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
