package faults

import (
	"fmt"
	"slices"
)

// All returns the faults in the order in which they run.
func All() []Fault {
	return slices.Concat(killFaults(), freezeFaults(), stopFaults(), serverFaults(), networkFaults(), commitFaults(),
		answerFaults(), turnedAwayFaults(), inquiryFaults(), windowFaults(), hangFaults(), notifyFaults(), lockFaults(),
		callerFaults(), apiFaults(), failoverFaults(), forgetfulFaults(), restoreFaults(), poolerFaults(),
		clockFaults(), diskFaults(), schemaFaults(), tamperFaults(), starveFaults(), machineFaults(), mixedFaults())
}

// Find returns the fault of a name.
func Find(name string) (Fault, error) {
	for _, fault := range All() {
		if fault.Name == name {
			return fault, nil
		}
	}
	return Fault{}, fmt.Errorf("no fault is called %q", name)
}
