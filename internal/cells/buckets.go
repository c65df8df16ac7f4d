package cells

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/railhead-pay/railhead/outbox"
)

// Buckets reads a list of buckets: numbers and ranges with commas between, such as 0-511,700.
func Buckets(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := bucket(from)
		last := first
		if err == nil && isRange {
			last, err = bucket(to)
		}
		if err == nil && last < first {
			err = fmt.Errorf("%d is before %d", last, first)
		}
		if err != nil {
			return nil, fmt.Errorf("buckets are numbers of 0 to %d and ranges, such as 0-511,700: %q: %w", outbox.Buckets-1,
				bounded(part), err)
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// List writes buckets as Buckets reads them, at most most ranges and then how many more there are.
func List(buckets []int, most int) string {
	var parts []string
	for n := 0; n < len(buckets); {
		last := n
		for last+1 < len(buckets) && buckets[last+1] == buckets[last]+1 {
			last++
		}
		if len(parts) == most {
			return strings.Join(parts, ",") + fmt.Sprintf(" and %d more", len(buckets)-n)
		}
		if last == n {
			parts = append(parts, fmt.Sprint(buckets[n]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", buckets[n], buckets[last]))
		}
		n = last + 1
	}
	return strings.Join(parts, ",")
}

// bucket reads the number of a bucket.
func bucket(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("not a number")
	}
	if n < 0 || n >= outbox.Buckets {
		return 0, fmt.Errorf("there is no bucket %d", n)
	}
	return n, nil
}

func bounded(text string) string { return text[:min(len(text), 40)] }
