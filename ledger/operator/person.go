package operator

import "context"

// personKey is the key of the person in a context.
type personKey struct{}

// OnBehalfOf returns a context whose acts name a person: the operator log then has the login and
// the person. It is what the login says; the database checks the form of the name alone, at most
// 512 bytes without control characters, and refuses the act otherwise (RH002).
func OnBehalfOf(ctx context.Context, person string) context.Context {
	return context.WithValue(ctx, personKey{}, person)
}

// personOf returns the person whom the acts of a context name; empty: none.
func personOf(ctx context.Context) string {
	person, _ := ctx.Value(personKey{}).(string)
	return person
}
