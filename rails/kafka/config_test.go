package kafka_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/kafka"
)

// TestAgrees tests that a profile may rely on nothing that a topic can't do.
func TestAgrees(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*rails.Profile){
		"profile.resend_on_unknown": func(p *rails.Profile) {
			p.ResendOnUnknown, p.KeyWindow = payment.ResendSameKey, payment.Duration(3600e9)
		},
		"profile.id_after_refusal":          func(p *rails.Profile) { p.IDAfterRefusal = payment.IDNew },
		"profile.answer_covers_key":         func(p *rails.Profile) { p.AnswerCoversKey = true },
		"profile.inquiry.max":               func(p *rails.Profile) { p.Inquiry.Max = 1 },
		"profile.refuses_before_processing": func(p *rails.Profile) { p.RefusesBeforeProcessing = false },
		"profile.acceptance":                func(p *rails.Profile) { p.Acceptance = payment.AcceptanceProvisional },
	} {
		p, c := profile(), config(t, "kafka://127.0.0.1:9092").WithDefaults()
		if err := c.Agrees(p); err != nil {
			t.Fatal(err)
		}
		change(&p)
		err := c.Agrees(p)
		if err == nil || !strings.HasPrefix(err.Error(), field+" ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := kafka.Open(c, p, getenv); err == nil {
			t.Errorf("%s: the rail opens", field)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*kafka.Config){
		"servers has":                  func(c *kafka.Config) { c.Servers = nil },
		"servers[0] is no URL":         func(c *kafka.Config) { c.Servers = []string{"kafka://host:9092/path"} },
		"servers[0] has the port":      func(c *kafka.Config) { c.Servers = []string{"kafka://host:65536"} },
		"servers[0] holds a user":      func(c *kafka.Config) { c.Servers = []string{"tls://a:b@host:9093"} },
		"servers[0] is kafka":          func(c *kafka.Config) { c.AllowPlaintext = false },
		"servers[0] has scheme":        func(c *kafka.Config) { c.Servers = []string{"http://host:80"} },
		"servers[1] has scheme":        func(c *kafka.Config) { c.Servers = append(c.Servers, "tls://host:9093") },
		"mechanism is missing":         func(c *kafka.Config) { c.Mechanism = "" },
		"mechanism is PLAIN":           func(c *kafka.Config) { c.User = "" },
		`mechanism is "GSSAPI"`:        func(c *kafka.Config) { c.Mechanism = "GSSAPI" },
		"tls.client_cert goes":         func(c *kafka.Config) { c.TLS.ClientCert = ref(t, "env:CERT") },
		`topic is ""`:                  func(c *kafka.Config) { c.Topic = "" },
		`topic is "__consumer_offset"`: func(c *kafka.Config) { c.Topic = "__consumer_offset" },
		"partitions is 0":              func(c *kafka.Config) { c.Partitions = 0 },
		"replicas is 8":                func(c *kafka.Config) { c.Replicas = 8 },
		"keeps_for is":                 func(c *kafka.Config) { c.KeepsFor = -1 },
	} {
		c := config(t, "kafka://127.0.0.1:9092").WithDefaults()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
