package enqueue

import "github.com/railhead-pay/railhead/outbox"

// Batch is a batch of instructions: the items that are sent, and the results of all.
type Batch struct {
	Items   []Item
	From    []int // the index of each item in Results
	Results []outbox.ReceiptOrFault
}
