package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/alerts"
)

// place is a page of the console by its address and name.
type place struct{ Path, Name string }

// shownAt is where the console shows the cause of an alert.
var shownAt = map[string]place{
	"RailheadConflictOpened":            {"/dead-letters?reason=CONFLICT", "Dead letters"},
	"RailheadPaymentParked":             {"/dead-letters?reason=OUTCOME_UNKNOWN", "Dead letters"},
	"RailheadDeadLettersGrowing":        {"/dead-letters", "Dead letters"},
	"RailheadUnknownsGrowing":           {"/rails", "Rails"},
	"RailheadOrderBlocked":              {"/rails", "Rails"},
	"RailheadPaymentNearExpiry":         {"/#expiring", "Overview"},
	"RailheadSuspensionOpen":            {"/components#suspensions", "Components"},
	"RailheadCellTakesNothing":          {"/components#suspensions", "Components"},
	"RailheadBucketsUntaken":            {"/components#suspensions", "Components"},
	"RailheadOldestPendingTooOld":       {"/rails", "Rails"},
	"RailheadStuckDispatching":          {"/components", "Components"},
	"RailheadRetryableSpike":            {"/rails", "Rails"},
	"RailheadRailBusy":                  {"/rails", "Rails"},
	"RailheadRailPausedItself":          {"/rails", "Rails"},
	"RailheadBreakerOpen":               {"/rails", "Rails"},
	"RailheadNotifierLost":              {"/components", "Components"},
	"RailheadReaperNotRunning":          {"/components", "Components"},
	"RailheadComponentStale":            {"/components", "Components"},
	"RailheadComponentStopped":          {"/components", "Components"},
	"RailheadComponentRestarts":         {"/components", "Components"},
	"RailheadCertificateExpires":        {"/components", "Components"},
	"RailheadStateUnsaved":              {"/components", "Components"},
	"RailheadAPIFailing":                {"/database#logins", "Database"},
	"RailheadTokenNotInForce":           {"/tokens", "Tokens"},
	"RailheadCallbacksNotTaken":         {"/rails", "Rails"},
	"RailheadEventsHeld":                {"/endpoints", "Endpoints"},
	"RailheadWebhookStuck":              {"/endpoints", "Endpoints"},
	"RailheadStatsStale":                {"/database#logins", "Database"},
	"RailheadClockSkew":                 {"/components", "Components"},
	"RailheadHeldSnapshot":              {"/database#vacuum", "Database"},
	"RailheadPartitionsRunningOut":      {"/database#partitions", "Database"},
	"RailheadWraparoundNear":            {"/database#wraparound", "Database"},
	"RailheadDatabaseNearFull":          {"/database", "Database"},
	"RailheadDispatchSuccessBudgetBurn": {"/rails", "Rails"},
	"RailheadDispatchLatencyBudgetBurn": {"/rails", "Rails"},
}

// alertRow is an alert in the list.
type alertRow struct {
	Name, Severity string
	Meaning        [][]span
	Place          place
}

// alertRows are all alerts with what they mean, in the order of the rules. An alert of two severities is one row.
func alertRows() ([]alertRow, error) {
	text, err := alerts.Files.ReadFile(alerts.RulesFile)
	if err != nil {
		return nil, err
	}
	rules, err := alerts.ReadRules(text)
	if err != nil {
		return nil, err
	}
	var rows []alertRow
	for _, rule := range rules {
		if rule.Alert == "" {
			continue
		}
		if at := slices.IndexFunc(rows, func(row alertRow) bool { return row.Name == rule.Alert }); at >= 0 {
			if severity := rule.Labels["severity"]; !strings.Contains(rows[at].Severity, severity) {
				rows[at].Severity += ", " + severity
			}
			continue
		}
		rows = append(rows, alertRow{rule.Alert, rule.Labels["severity"], meaningOf(rule.Alert), shownAt[rule.Alert]})
	}
	return rows, nil
}

// meaningOf is the first paragraph of an alert's runbook.
func meaningOf(alert string) [][]span {
	for _, block := range blocksOf(string(runbookOf(alert))) {
		if block.Kind == "p" {
			return block.Lines
		}
	}
	return nil
}

// alerts lists every alert with its runbook, and where this console shows its cause.
func (c *Console) alerts(w http.ResponseWriter, r *http.Request, _ Person) {
	rows, err := alertRows()
	if err != nil {
		c.failed(w, r, err)
		return
	}
	slices.SortStableFunc(rows, func(a, b alertRow) int { return strings.Compare(a.Name, b.Name) })
	c.show(w, r, "alerts.html", page{Title: "Alerts", Body: rows})
}
