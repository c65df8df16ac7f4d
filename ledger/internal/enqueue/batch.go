package enqueue

import "github.com/railhead-pay/railhead/outbox"

// Batch is a batch on its way: the items that are sent, where each came from,
// and what became of all.
type Batch struct {
	Items   []Item
	From    []int // index in results of each of items
	Results []outbox.ReceiptOrFault
}
