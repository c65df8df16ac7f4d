package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"

	"github.com/caarlos0/env/v11"

	"github.com/railhead-pay/railhead/migrations"
)

// settingShape is the form that the map of cells allows for the name of a setting.
var settingShape = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,62}$`)

// cells are the settings of each cell that the process works for. Without RAILHEAD_CELLS it is one, which has
// those of the process. Otherwise a connection string is that of the variable with the cell's setting at its
// end, and no other one; what is tagged cell:"may" is the process's own where that variable is not set.
func (s settings) cells() (all []settings, err error) {
	if s.Cells == "" {
		return []settings{s}, nil
	}
	names := listOf(s.Cells)
	for n, name := range names {
		if !settingShape.MatchString(name) {
			return nil, usage(fmt.Errorf("RAILHEAD_CELLS: %q is not the name of a setting, such as WEST: upper-case "+
				"letters, digits and underscores", bounded(name, 63)))
		}
		if slices.Contains(names[:n], name) {
			return nil, usage(fmt.Errorf("RAILHEAD_CELLS names %s twice", name))
		}
		one, err := s.ofCell(name)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, usage(fmt.Errorf("RAILHEAD_CELLS names no cell: give it names of settings, such as EAST,WEST"))
	}
	return all, nil
}

// ofCell are the settings for one of several cells.
func (s settings) ofCell(name string) (settings, error) {
	environment := env.ToMap(os.Environ())
	for field := range reflect.TypeFor[settings]().Fields() {
		variable, of := field.Tag.Get("env"), field.Tag.Get("cell")
		value := environment[variable+"_"+name]
		if of == "own" || of == "may" && value != "" {
			environment[variable] = value
		}
	}
	var one settings
	if err := env.ParseWithOptions(&one, env.Options{Environment: environment}); err != nil {
		return settings{}, usage(fmt.Errorf("reading the environment for cell %s: %w", name, byVariable(err)))
	}
	if err := migrations.CheckCell(one.Cell); err != nil {
		return settings{}, usage(fmt.Errorf("RAILHEAD_CELL_%s: %w", name, err))
	}
	one.Setting, one.traces, one.logTo = name, s.traces, s.logTo
	return one, nil
}

// variable is the name of a variable for this cell.
func (s settings) variable(name string) string {
	if s.Setting == "" {
		return name
	}
	return name + "_" + s.Setting
}

// schemaVariable names the schema of a cell, with the setting at its end that of one of several.
const schemaVariable = "RAILHEAD_CELL"

// cellSchemas are the schemas that RAILHEAD_CELL_SETTING names for some of these settings.
func cellSchemas(variable string) map[string]string {
	schemas := make(map[string]string)
	for _, setting := range cellSettings(variable) {
		if schema := os.Getenv(schemaVariable + "_" + setting); schema != "" {
			schemas[setting] = schema
		}
	}
	return schemas
}
