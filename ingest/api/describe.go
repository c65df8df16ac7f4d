package api

import (
	"cmp"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Version is the version of the contract. The first number is in each path, and changes with what
// breaks a caller. The second changes with an added field, operation or state.
const Version = "1.6.0"

const about = "Accepts payment instructions and reports what became of them: " +
	"never lost, never paid twice, always explainable.\n\n" +
	"Within /v1 nothing is removed and nothing changes its meaning. Fields, operations, states and problem types may " +
	"be added; a caller ignores those it does not know. A retry repeats the first call with the same Idempotency-Key " +
	"and content, at any later time: it never creates a second instruction. Money is a decimal string. Each answer " +
	"repeats the header " + outbox.CallHeader + " of its call, of 1 to 64 letters, digits, - and _: a caller that sends " +
	"another value with each call knows an answer to another one, which something on the way has mixed up."

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
			Description: "A token of POST /v1/events/tokens. It may also be sent in the header Authorization."},
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
			"participant_id": text("The participant of the instruction; the token must be for it"),
			"rail_type":      text("The rail to which the instruction is dispatched"),
			"payload": {
				Type: huma.TypeObject, AdditionalProperties: true,
				Description: "The fields that the rail needs: at most 64 KiB and 15 levels, each name once. " +
					"Amount and currency are required, except on a rail of messages, which accepts a payload with neither",
				Properties: map[string]*huma.Schema{
					"amount": {Type: huma.TypeString, Description: `A decimal string such as "10.50"`,
						Pattern: `^(0|[1-9][0-9]{0,18})([.][0-9]{1,4})?$`},
					"currency": {Type: huma.TypeString, Description: "ISO 4217", Pattern: "^[A-Z]{3}$"},
				},
			},
			"not_before": moment("The earliest moment of the first send, at most 366 days ahead"),
			"expires_at": moment("Nothing is sent from this moment on"),
			"priority": {Type: huma.TypeInteger, Enum: []any{0, 1, 2}, Default: 1,
				Description: "0 urgent, 1 normal, 2 bulk"},
			"send_once": {Type: huma.TypeBoolean, Default: false,
				Description: "Allow only one send: after a send that may have reached the rail, " +
					"nothing is sent again automatically"},
			"on_behalf_of": text("The principal behind the call, stored with the instruction"),
		},
		Required: []string{"instruction_id", "participant_id", "rail_type", "payload"},
	}
	if inBatch {
		s.Properties["idempotency_key"] = text("The same as the header Idempotency-Key of a single call")
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
			Description: "The reason, stored with the cancellation"}},
	}
	a.huma.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		header := http.Header{}
		ctx.EachHeader(func(name, value string) { header.Add(name, value) })
		next(huma.WithValue(ctx, headerKey{}, header))
	})

	enqueue := a.operation("enqueue-instruction", http.MethodPost, "/v1/instructions", "Enqueue one instruction",
		"Answers 201 once the instruction is durable, and 200 with Idempotent-Replayed if the same key was used before "+
			"with the same content. With Prefer: wait=N it answers 200 with the outcome, or 202 with the address of the "+
			"status, where the token may read; Preference-Applied says that it has waited. "+
			"A repeated call whose payment is in another cell is answered at once, with the state ELSEWHERE.",
		[]int{400, 401, 403, 408, 409, 413, 415, 422, 429, 500, 503})
	enqueue.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, enqueue, a.enqueue)
	a.answers("/v1/instructions", http.MethodPost, http.StatusCreated, map[int]string{
		http.StatusCreated:  "The instruction is durable",
		http.StatusAccepted: "The instruction is durable, but its outcome was not known in time",
		http.StatusOK: "The instruction was enqueued before (Idempotent-Replayed), " +
			"or this is the outcome that the call waited for",
	})
	huma.Register(a.huma, a.operation("get-instruction", http.MethodGet, "/v1/instructions/{outbox_id}",
		"Get the status of an instruction",
		"An instruction of another participant is 404, as is one that does not exist. While an enqueue that was not "+
			"answered may be under way, 404 does not mean that there is no payment: repeat that enqueue.",
		[]int{400, 401, 403, 404, 429, 500, 503}), a.status)
	huma.Register(a.huma, a.operation("list-attempts", http.MethodGet, "/v1/instructions/{outbox_id}/attempts",
		"List the attempts of an instruction",
		"The rows of the archive: state, references and codes, never content. 409 if they are in another cell "+
			"(ELSEWHERE).",
		[]int{400, 401, 403, 404, 409, 429, 500, 503}), a.attempts)
	huma.Register(a.huma, a.operation("list-instructions", http.MethodGet, "/v1/instructions",
		"List the instructions of a participant",
		"In the order of their numbers, page by page. Those that the participant has enqueued in another cell, before "+
			"it was moved to this one, have the state ELSEWHERE. While an enqueue that was not answered may be under way, "+
			"an empty page does not mean that there is no payment: repeat that enqueue.",
		[]int{400, 401, 403, 429, 500, 503}), a.list)
	cancel := a.operation("cancel-instruction", http.MethodPost, "/v1/instructions/{outbox_id}/cancel",
		"Cancel an instruction",
		"Ends a waiting instruction of which no send can have been executed, atomically with respect to the claim: 409 "+
			"if it comes too late. The answer is the status of the instruction as of the same moment, also for a token that "+
			"may not read: pay in another way only where its certainty is not OUTCOME_UNKNOWN. A repeated call is answered "+
			"with the status as it is then, and with Idempotent-Replayed.",
		[]int{400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503})
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
		"Enqueue many instructions, one per line",
		"NDJSON, streamed in both directions: each line is an instruction with its idempotency_key, and each line of "+
			"the answer, in the same order, is the result of one. The last line is the end: an answer without it was cut "+
			"off, and the whole call may be repeated. At most 10,000 lines and 64 MiB. The whole body may be written before "+
			"the answer is read.",
		[]int{400, 401, 403, 413, 415, 429, 503})
	operation.RequestBody = bodyOf("application/x-ndjson", "BatchInstruction")
	line := schemas.Schema(typeOf[batchLine](), true, "BatchLine")
	operation.Responses = map[string]*huma.Response{"200": {
		Description: "A line for each instruction, and the end line",
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
		"List events of instructions, by page or as a stream",
		"An event is a row of the archive, and keeps its id. None is left out, however late its transaction commits. "+
			"The events of one instruction come in the order of attempt_no, each once; some are repeated after a failover "+
			"or a cut stream: store the ids. With Accept: text/event-stream the answer is a stream of server-sent events "+
			"whose ids are cursors: a caller that reconnects sends the last one as Last-Event-ID. Without after or since, a "+
			"stream starts from now, and a page from the oldest event of the archive. An event named end contains the "+
			"reason why a stream ends. Where the process serves several cells, events and cursors are of one of them.",
		[]int{400, 401, 403, 429, 500, 503})
	events.Security = []map[string][]string{{"token": {}}, {"event_token": {}}}
	events.Parameters = []*huma.Param{
		query("participant_id", "Only events of this participant; may be repeated. Default: all participants of the token",
			&huma.Schema{Type: huma.TypeArray, Items: text("")}),
		query("types", "Only events of these types, separated by commas", types),
		query("cell", "The cell whose events are read, by the name of its setting: required where the process serves "+
			"several cells, unless an event token names it, and refused where it serves one", text("")),
		query("after", "The cursor next of an earlier page, or the id of an event of a stream", text("")),
		query("since", "From this moment on, accurate to a few seconds; not together with after", text("date-time")),
		query("limit", "The maximum number of events of a page", &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0),
			Maximum: new(float64(eventsPageMax)), Default: eventsPage}),
		{Name: "Last-Event-ID", In: "header", Description: "For a stream: as after, and takes precedence over it",
			Schema: text("")},
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
		"Create a token that reads events, for a browser or a partner",
		"The new token narrows the caller's token to reading events, of some participants and types "+
			"and for a short time, and ends with it.",
		[]int{400, 401, 403, 415, 422, 429, 500, 501, 503})
	schemas.Map()["EventTokenRequest"] = &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"expires_in"},
		Properties: map[string]*huma.Schema{
			"expires_in": {Type: huma.TypeInteger, Minimum: new(eventTokenLeast.Seconds()),
				Maximum: new(eventTokenMost.Seconds()), Description: "Seconds"},
			"participants": {Type: huma.TypeArray, Items: text(""), MinItems: new(1), MaxItems: new(eventTokenNames),
				Description: "A subset of the token's; absent: all of them"},
			"cell": {Type: huma.TypeString, Description: "The cell whose events the token reads, by the name of its " +
				"setting: required where the process serves several cells, and refused where it serves one"},
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
