package reaper_test

import (
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestPassingFaultSetsNothingAside tests faults that pass while expired rows are ended one by one: no row is at fault
// for a full disk, a lock or a lost race, although its neighbour could be ended a moment later.
func TestPassingFaultSetsNothingAside(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{
		"full disk": "53100", "lock": "55P03", "lost race": "40001", "cancelled": "57014", "lost grant": "42501",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := "2"
			if state == "40001" {
				last = "6"
			}
			y := newYard(t, sameKey)
			var ids []payment.ID
			for range 3 {
				ids = append(ids, y.enqueue())
			}
			y.do(expireAll)
			y.do(`CREATE SEQUENCE railhead.tries_in_a_test`)
			// All of them fail together; then the fault meets the first one by itself, in each of its tries.
			y.do(`CREATE FUNCTION railhead.refuse_in_a_test() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
				DECLARE n bigint := nextval('railhead.tries_in_a_test');
				BEGIN
					IF n = 1 THEN RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'for a moment'; END IF;
					IF n <= ` + last + ` THEN
						RAISE EXCEPTION USING ERRCODE = '` + state + `', MESSAGE = 'for a moment'; END IF;
					RETURN NEW;
				END $$`)
			y.do(`GRANT EXECUTE ON FUNCTION railhead.refuse_in_a_test() TO PUBLIC`)
			y.do(`CREATE TRIGGER refused_by_the_test BEFORE INSERT ON railhead.payment_outbox_attempts
				FOR EACH ROW EXECUTE FUNCTION railhead.refuse_in_a_test()`)
			r := y.reaper()
			result := y.once(r) // others could be ended: the reaper works
			same(t, "expired", result.Expired, 2)
			same(t, "quarantined", result.Quarantined, 0)
			same(t, "tried again", result.Unended, 1)
			same(t, "expired by the next turn", y.once(r).Expired, 1)
			for _, id := range ids {
				same(t, "fate", y.fate(id), "FAILED/EXPIRED, letter EXPIRED pending")
			}
		})
	}
}
