package api

import (
	"cmp"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/railhead-pay/railhead/payment"
)

// Version is the version of the contract. The first number is in each path, and changes with what
// breaks a caller. The second changes with an added field or operation.
const Version = "1.1.0"

const about = "Takes payment instructions, and says what became of them: never lost, never paid twice, always explainable.\n\n" +
	"Within /v1 nothing is taken away or given another meaning; fields, operations, states and problem types may be added, and a caller " +
	"ignores what it does not know. A retry repeats the first call with the same Idempotency-Key and content, for as long as it likes: " +
	"it never makes a second instruction. Money is a decimal string."

// describe returns the part of the OpenAPI document that is not about an operation.
func describe() huma.Config {
	quieten()
	config := huma.DefaultConfig("Railhead", Version)
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", func(t reflect.Type, hint string) string {
		name := huma.DefaultSchemaNamer(t, hint)
		return cmp.Or(map[string]string{"Seen": "InstructionStatus", "Row": "Attempt", "AttemptsOutputBody": "AttemptPage",
			"EventTokenMade": "EventToken", "ListOutputBody": "InstructionPage"}[name], name)
	})
	config.CreateHooks = nil // no link to a schema in each answer
	config.DocsPath, config.SchemasPath = "", ""
	config.Info.Description = about
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer",
			Description: "A token of railhead token create. It may be bound to a client certificate."},
		"event_token": {Type: "apiKey", In: "query", Name: tokenParameter,
			Description: "A token of POST /v1/events/tokens, which the header Authorization may show as well."},
	}
	config.Security = []map[string][]string{{"token": {}}}
	return config
}

// OpenAPI returns the document that describes the API.
func (a *API) OpenAPI() ([]byte, error) { return a.huma.OpenAPI().MarshalJSON() }

func (a *API) operation(id, method, path, summary, description string, errors []int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Description: description, Errors: errors,
		SkipValidateBody: true, // readInstruction checks it
		MaxBodyBytes:     a.config.BodyBytesMax, BodyReadTimeout: a.config.IdleMax,
	}
}

// instructionSchema returns the schema of the body of an enqueue, as readInstruction parses it.
func instructionSchema(inBatch bool) *huma.Schema {
	text := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(128), Pattern: "^[!-~]([ -~]*[!-~])?$",
			Description: description}
	}
	moment := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: description}
	}
	s := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{
			"instruction_id": text("The caller's name for the payment"),
			"participant_id": text("Whose stream of instructions it is; the token has to be for it"),
			"rail_type":      text("The rail that is to execute it"),
			"payload": {
				Type: huma.TypeObject, AdditionalProperties: true, Required: []string{"amount", "currency"},
				Description: "What the rail needs, at most 64 KiB and 15 levels, no name twice",
				Properties: map[string]*huma.Schema{
					"amount": {Type: huma.TypeString, Description: `A decimal string such as "10.50"`,
						Pattern: `^(0|[1-9][0-9]{0,18})([.][0-9]{1,4})?$`},
					"currency": {Type: huma.TypeString, Description: "ISO 4217", Pattern: "^[A-Z]{3}$"},
				},
			},
			"not_before": moment("Earliest moment of the first send, at most 366 days ahead"),
			"expires_at": moment("Nothing is sent from then on"),
			"priority": {Type: huma.TypeInteger, Enum: []any{0, 1, 2}, Default: 1,
				Description: "0 urgent, 1 normal, 2 bulk"},
			"send_once": {Type: huma.TypeBoolean, Default: false,
				Description: "One send alone: after one that may have reached the rail nothing is sent again by itself"},
			"on_behalf_of": text("The principal behind the call, kept with the instruction"),
		},
		Required: []string{"instruction_id", "participant_id", "rail_type", "payload"},
	}
	if inBatch {
		s.Properties["idempotency_key"] = text("As the header Idempotency-Key of a single call")
		s.Required = append(s.Required, "idempotency_key")
	}
	return s
}

func bodyOf(mediaType, name string) *huma.RequestBody {
	return &huma.RequestBody{Required: true,
		Content: map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Ref: "#/components/schemas/" + name}}}}
}

// register adds the operations to the description and to the mux.
func (a *API) register() {
	schemas := a.huma.OpenAPI().Components.Schemas.Map()
	schemas["Instruction"], schemas["BatchInstruction"] = instructionSchema(false), instructionSchema(true)
	schemas["Reason"] = &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"reason"},
		Properties: map[string]*huma.Schema{"reason": {Type: huma.TypeString, MinLength: new(1), MaxLength: new(500),
			Description: "Why; it is kept with the cancellation"}},
	}
	a.huma.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		header := http.Header{}
		ctx.EachHeader(func(name, value string) { header.Add(name, value) })
		next(huma.WithValue(ctx, headerKey{}, header))
	})

	enqueue := a.operation("enqueue-instruction", http.MethodPost, "/v1/instructions", "Enqueue one instruction",
		"Answers 201 once the instruction is durable, and 200 with Idempotent-Replayed where the same key with the same content was there before. "+
			"With Prefer: wait=N it answers 200 with the outcome, or 202 and where to look.", []int{400, 401, 403, 409, 413, 415,
			422, 429, 500, 503})
	enqueue.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, enqueue, a.enqueue)
	a.answers("/v1/instructions", http.MethodPost, http.StatusCreated, map[int]string{
		http.StatusCreated:  "The instruction is durable",
		http.StatusOK:       "It was enqueued before (Idempotent-Replayed), or the outcome that was waited for",
		http.StatusAccepted: "The instruction is durable, and its outcome was not known in time",
	})
	huma.Register(a.huma, a.operation("get-instruction", http.MethodGet, "/v1/instructions/{outbox_id}",
		"Say what became of an instruction",
		"Another participant's is 404, like one that does not exist.", []int{400, 401, 403, 404, 429, 500, 503}), a.status)
	huma.Register(a.huma, a.operation("list-attempts", http.MethodGet, "/v1/instructions/{outbox_id}/attempts",
		"List the archive's rows about an instruction",
		"State, references and codes: never content.", []int{400, 401, 403, 404, 429, 500, 503}), a.attempts)
	huma.Register(a.huma, a.operation("list-instructions", http.MethodGet, "/v1/instructions",
		"List the instructions of a participant",
		"In the order of their numbers, page by page.", []int{400, 401, 403, 429, 500, 503}), a.list)
	cancel := a.operation("cancel-instruction", http.MethodPost, "/v1/instructions/{outbox_id}/cancel",
		"Cancel an instruction",
		"Ends one that waits and of which no send can have been executed, atomic against the claim: 409 where it comes too late. "+
			"A call that is repeated gets the same answer.", []int{400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503})
	huma.Register(a.huma, cancel, a.cancel)
	// Huma describes a raw body as binary.
	paths := a.huma.OpenAPI().Paths
	paths["/v1/instructions"].Post.RequestBody = bodyOf("application/json", "Instruction")
	paths["/v1/instructions/{outbox_id}/cancel"].Post.RequestBody = bodyOf("application/json", "Reason")
	for _, parameter := range paths["/v1/instructions"].Post.Parameters {
		parameter.Required = parameter.Name == "Idempotency-Key"
	}
	a.describeBatch()
	a.describeEvents()
	// Fields may be added to answers.
	for name, schema := range schemas {
		if name != "Instruction" && name != "BatchInstruction" && name != "Reason" && name != "EventTokenRequest" {
			schema.AdditionalProperties = nil
		}
	}
}

// answers describes the statuses of an operation that has several with one body.
func (a *API) answers(path, method string, of int, descriptions map[int]string) {
	operation := a.huma.OpenAPI().Paths[path].Post
	if method == http.MethodGet {
		operation = a.huma.OpenAPI().Paths[path].Get
	}
	whole := operation.Responses[strconv.Itoa(of)]
	for status, description := range descriptions {
		one := *whole
		one.Description = description
		operation.Responses[strconv.Itoa(status)] = &one
	}
}

type headerKey struct{}

// describeBatch describes the one streamed operation, which huma does not serve.
func (a *API) describeBatch() {
	schemas := a.huma.OpenAPI().Components.Schemas
	operation := a.operation("enqueue-batch", http.MethodPost, "/v1/instructions/batch",
		"Enqueue many instructions, a line each",
		"NDJSON, streamed both ways: each line is an instruction with its idempotency_key, and each line of the answer, in their order, says "+
			"what became of one. The last line is the end: an answer without it was cut, and the whole call may be repeated. "+
			"At most 10,000 lines and 64 MiB.", []int{400, 401, 403, 413, 415, 429, 503})
	operation.RequestBody = bodyOf("application/x-ndjson", "BatchInstruction")
	line := schemas.Schema(typeOf[batchLine](), true, "BatchLine")
	operation.Responses = map[string]*huma.Response{"200": {
		Description: "A line for each instruction, and the end",
		Content:     map[string]*huma.MediaType{"application/x-ndjson": {Schema: line}},
	}}
	a.add(operation)
}

// add describes an operation that huma does not serve.
func (a *API) add(operation huma.Operation) {
	problem := a.huma.OpenAPI().Components.Schemas.Schema(typeOf[Problem](), true, "Problem")
	for _, status := range operation.Errors {
		operation.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}
	}
	a.huma.OpenAPI().AddOperation(&operation)
}

// describeEvents describes the operation that returns a page or a stream, as the caller accepts.
func (a *API) describeEvents() {
	schemas := a.huma.OpenAPI().Components.Schemas
	text := func(format string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Format: format} }
	query := func(name, description string, schema *huma.Schema) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: description, Schema: schema}
	}
	types := &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString,
		Enum: enumOf(payment.EventTypes())}}
	events := a.operation("list-events", http.MethodGet, "/v1/events",
		"Say what has happened to instructions, page by page or as it happens",
		"An event is a row of the archive, and keeps its id. None is left out, whatever commits late; of one instruction they come in the order "+
			"of attempt_no, each once, and some again after a failover or where a stream was cut: keep the ids. With Accept: text/event-stream it is a stream of "+
			"server-sent events, whose ids are cursors: a caller that reconnects gives the last one as Last-Event-ID. A stream begins with what happens from "+
			"now on, a page with the oldest event that the archive has, unless after or since says otherwise. An event named end says why a stream ends.",
		[]int{400, 401, 403, 429, 500, 503})
	events.Security = []map[string][]string{{"token": {}}, {"event_token": {}}}
	events.Parameters = []*huma.Param{
		query("participant_id", "Only of this participant; may be repeated. Else of each that the token is for",
			&huma.Schema{Type: huma.TypeArray, Items: text("")}),
		query("types", "Only events of these types, with commas between", types),
		query("after", "The cursor next of an earlier page, or the id of an event of a stream", text("")),
		query("since", "From this moment on, to a few seconds; not with after", text("date-time")),
		query("limit", "Of a page", &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0),
			Maximum: new(float64(eventsPageMax)), Default: eventsPage}),
		{Name: "Last-Event-ID", In: "header", Description: "Of a stream: as after, which it goes before", Schema: text("")},
	}
	explode := false
	events.Parameters[1].Style, events.Parameters[1].Explode = "form", &explode
	events.Responses = map[string]*huma.Response{"200": {Description: "A page, or a stream",
		Content: map[string]*huma.MediaType{
			"application/json":  {Schema: schemas.Schema(typeOf[eventPage](), true, "EventPage")},
			"text/event-stream": {Schema: text("")},
		}}}
	a.add(events)

	token := a.operation("create-event-token", http.MethodPost, "/v1/events/tokens",
		"Make a token that reads events, for a browser or a partner",
		"It narrows the token that the call shows to reading events, of some participants and types and for a short time, and ends with it.",
		[]int{400, 401, 403, 415, 422, 429, 500, 501, 503})
	schemas.Map()["EventTokenRequest"] = &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"expires_in"},
		Properties: map[string]*huma.Schema{
			"expires_in": {Type: huma.TypeInteger, Minimum: new(eventTokenLeast.Seconds()),
				Maximum: new(eventTokenMost.Seconds()), Description: "Seconds"},
			"participants": {Type: huma.TypeArray, Items: text(""), MinItems: new(1), MaxItems: new(eventTokenNames),
				Description: "Of the token's; left out: all of them"},
			"types": types,
		},
	}
	token.RequestBody = bodyOf("application/json", "EventTokenRequest")
	token.Responses = map[string]*huma.Response{"201": {Description: "The token", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemas.Schema(typeOf[eventTokenMade](), true, "EventToken")},
	}}}
	a.add(token)
}

// enumOf returns a list of words for a schema.
func enumOf[W ~string](words []W) []any {
	all := make([]any, len(words))
	for n, word := range words {
		all[n] = string(word)
	}
	return all
}
