// Package server runs the private PostgreSQL of the benchmark, with one configuration for every
// system and a fresh database for every run, and measures what a run costs.
package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// Settings returns the settings, which are the same for every system. Durability is PostgreSQL's
// default and named here so that a reader sees it.
func Settings() map[string]string {
	return map[string]string{
		"fsync":              "on",
		"synchronous_commit": "on",
		"full_page_writes":   "on",
		"shared_buffers":     "512MB",
		"max_connections":    "300",
		"max_wal_size":       "4GB", // no checkpoint in the middle of a run
	}
}

// Superuser is the login that owns the server.
const Superuser = pgserver.Superuser

// Server is a running PostgreSQL.
type Server struct {
	postgres *pgserver.Server
	settings []string // the names of those that are ours
	made     int
}

// Options configures the start of a server.
type Options struct {
	// Root is the folder of its data, on a real disk; "" is /tmp.
	Root string
	// Preload is a shared object that is loaded into every process of the server,
	// with the environment that it reads.
	Preload     string
	Environment map[string]string
	// Statements loads pg_stat_statements. It costs a little, so it is used for evidence only.
	Statements bool
	// Settings replace those of every run.
	Settings map[string]string
}

// Start starts a server that never outlives this process.
func Start(ctx context.Context, o Options) (*Server, error) {
	settings := Settings()
	if o.Statements {
		settings["shared_preload_libraries"] = "pg_stat_statements"
		settings["pg_stat_statements.track"] = "all"
		settings["track_io_timing"] = "on"
	}
	maps.Copy(settings, o.Settings)
	environment := maps.Clone(o.Environment)
	if o.Preload != "" {
		if environment == nil {
			environment = make(map[string]string)
		}
		environment["LD_PRELOAD"] = o.Preload
	}
	// The server inherits this process's environment; it must see these, and this
	// process's other children must not.
	for name, value := range environment {
		os.Setenv(name, value)
		defer os.Unsetenv(name)
	}
	started, err := pgserver.Start(ctx, pgserver.Options{TempRoot: o.Root, Settings: settings})
	if err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	s := &Server{postgres: started, settings: slices.Sorted(maps.Keys(settings))}
	if o.Preload != "" {
		// ld.so ignores a library that it can't read, so this is checked.
		mapped, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", started.PID()))
		if err != nil || !strings.Contains(string(mapped), o.Preload) {
			return nil, errors.Join(fmt.Errorf("the server did not load %s", o.Preload), err, s.Stop(ctx))
		}
	}
	return s, nil
}

// Stop ends the server and removes its data.
func (s *Server) Stop(ctx context.Context) error {
	return s.postgres.StopImmediate(context.WithoutCancel(ctx))
}

// Version returns the server's own version line.
func (s *Server) Version() string { return s.postgres.Binaries().Version }

// Program returns the path of a program that came with this PostgreSQL, or "" if it did not come
// with it.
func (s *Server) Program(name string) string {
	path := s.postgres.Binaries().Path(name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// PID returns the process id of the postmaster.
func (s *Server) PID() int { return s.postgres.PID() }

// Database is one database of the server.
type Database struct {
	Name   string
	server *Server
}

// URL returns the connection string of a login; "" is the superuser.
func (d Database) URL(login string) string { return d.server.postgres.URL(d.Name, login) }

// SocketDir returns the folder of the socket, which libpq calls the host.
func (d Database) SocketDir() string { return d.server.postgres.SocketDir() }

// Port returns what libpq calls the port; it is part of the socket's name.
func (d Database) Port() string {
	config, err := pgx.ParseConfig(d.URL(""))
	if err != nil {
		return "5432"
	}
	return strconv.Itoa(int(config.Port))
}

// Server returns the server of the database.
func (d Database) Server() *Server { return d.server }

// On returns the database of the same name on another server.
func (d Database) On(s *Server) Database { return Database{Name: d.Name, server: s} }

// Create creates a database, as a copy of a template unless that is empty.
func (s *Server) Create(ctx context.Context, name, template string) (Database, error) {
	if template == "" {
		template = "template0"
	}
	s.made++
	name = fmt.Sprintf("%s_%d", name, s.made)
	err := s.as(ctx, "postgres", func(conn *pgx.Conn) error {
		created, from := pgx.Identifier{name}.Sanitize(), pgx.Identifier{template}.Sanitize()
		_, err := conn.Exec(ctx, "CREATE DATABASE "+created+" TEMPLATE "+from)
		return err
	})
	if err != nil {
		return Database{}, fmt.Errorf("making database %s: %w", name, err)
	}
	return Database{Name: name, server: s}, nil
}

// Drop drops the database, and ends the sessions that are still connected.
func (d Database) Drop(ctx context.Context) error {
	return d.server.as(ctx, "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{d.Name}.Sanitize()+" WITH (FORCE)")
		return err
	})
}

// Settle gives every system the same start: statistics as autovacuum would have collected them by
// then, and no dirty page of earlier work.
func (d Database) Settle(ctx context.Context) error {
	return d.Do(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "ANALYZE"); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "CHECKPOINT")
		return err
	})
}

// Size returns the size of the database on the disk, in bytes.
func (d Database) Size(ctx context.Context) (bytes int64, err error) {
	err = d.Do(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&bytes)
	})
	return bytes, err
}

// Do runs f on one connection of the superuser.
func (d Database) Do(ctx context.Context, f func(conn *pgx.Conn) error) error {
	return d.server.as(ctx, d.Name, f)
}

func (s *Server) as(ctx context.Context, database string, f func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.postgres.URL(database, ""))
	if err != nil {
		return fmt.Errorf("connecting as superuser: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

// Hold keeps a snapshot open, as a report or a dump does, until release.
func (d Database) Hold(ctx context.Context) (release func(), err error) {
	conn, err := pgx.Connect(ctx, d.URL(""))
	if err != nil {
		return nil, fmt.Errorf("connecting to hold a snapshot: %w", err)
	}
	_, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pg_class")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("holding a snapshot: %w", err), conn.Close(ctx))
	}
	return func() { conn.Close(context.WithoutCancel(ctx)) }, nil
}

// Describe lists the settings that are in effect on the server.
func (s *Server) Describe(ctx context.Context) (string, error) {
	var text string
	err := s.as(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `
			SELECT string_agg(name || '=' || current_setting(name), ', ' ORDER BY name)
			FROM pg_settings WHERE name = ANY ($1)`,
			append(slices.Clone(s.settings), "autovacuum", "wal_level", "jit")).Scan(&text)
	})
	return text, err
}

// Postgres returns the database that every cluster has.
func (s *Server) Postgres() Database { return Database{Name: "postgres", server: s} }
