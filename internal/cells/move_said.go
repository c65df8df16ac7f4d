package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// Errors of a move that was not completed.
var (
	errUntaken    = errors.New("no cell takes the bucket yet: repeat the same command")
	errUnaccepted = errors.New("no cell takes the bucket until the server of this one is accepted: railhead timeline " +
		"accept there, then railhead cell sync")
	errUnread = errors.New("which cell takes it is not known: see railhead cell status, and repeat the same command")

	errPerhapsFrozen = errors.New("whether its participants are refused is not known: see railhead cell status, and " +
		"repeat the same command, or end the move with --cancel")
	errByAnother = errors.New("the bucket is not being moved any more: another command has completed the move, or has " +
		"ended it, or the cell has forgotten it, or maps contradict each other about it: see railhead cell status")
	errEnded = errors.New("the move is not known any more: another command has ended it, or the cell has forgotten it: " +
		"see railhead cell status")
)

// untaken is the error of a bucket that was given to a cell which does not take it by the maps that were read since.
func untaken(n *Operators, to string, bucket int) error {
	target, owner := n.of(to), n.Directory.Owners()[bucket]
	switch {
	case n.contradicted()[bucket]:
		return fmt.Errorf("%w: maps contradict each other about bucket %d: see railhead cell status", outbox.ErrNotAllowed,
			bucket)
	case owner != to:
		return fmt.Errorf("%w: cell %s has bucket %d by the maps, and not cell %s: another command has moved it, or a "+
			"cell has forgotten a gift: see railhead cell status", outbox.ErrNotAllowed, owner, bucket, to)
	case target.Err != nil:
		return fmt.Errorf("bucket %d was given to cell %s: %w: %w", bucket, to, errUnread, target.Err)
	case slices.Contains(target.Directory.Leaving, bucket):
		return movesOn(to, bucket)
	case slices.Contains(target.Directory.Takes, bucket):
		return nil
	}
	err := fmt.Errorf("%w: cell %s does not take it yet", outbox.ErrNotAllowed, to)
	if !target.Directory.Settled {
		return fmt.Errorf("bucket %d was given to cell %s: %w: %w", bucket, to, errUnaccepted, err)
	}
	return fmt.Errorf("bucket %d was given to cell %s: %w: %w", bucket, to, errUntaken, err)
}

// movesOn is the error of moving a bucket to a cell that has it, and is moving it away.
func movesOn(to string, bucket int) error {
	return fmt.Errorf("%w: cell %s has bucket %d, and is moving it to another cell: complete that move, or end it with "+
		"--cancel", outbox.ErrNotAllowed, to, bucket)
}

// unlessGiven says of a step that failed whether the bucket is still being moved. It returns nil if another
// command has completed the move meanwhile.
func unlessGiven(
	ctx context.Context, source *Reached[*operator.Operator], to string, bucket, version int, failed error,
) error {
	if failed == nil {
		return nil
	}
	move, err := source.Conn.BucketMove(ctx, bucket, version)
	switch {
	case err != nil:
		return fmt.Errorf("cell %s: bucket %d: %w: %w", source.Name, bucket, errPerhapsFrozen, errors.Join(failed, err))
	case move.Cell == "":
		return fmt.Errorf("cell %s: bucket %d: %w: %w", source.Name, bucket, errEnded, failed)
	case move.Given && move.Cell == to:
		return nil
	}
	return isOther(source, to, bucket, move, failed)
}

// isOther says what is known of a bucket that is not being moved as the command says, or still is.
func isOther(
	source *Reached[*operator.Operator], to string, bucket int, move operator.BucketMove, failed error,
) error {
	switch {
	case move.Cell == "":
		return fmt.Errorf("cell %s: bucket %d: %w: %w", source.Name, bucket, errByAnother, failed)
	case move.Given:
		return fmt.Errorf("cell %s: bucket %d: the move to cell %s is not known any more, and one to cell %s was begun "+
			"since: see railhead cell status: %w", source.Name, bucket, to, move.Cell, failed)
	}
	return fmt.Errorf("%w: %w", &frozenError{source.Name, bucket, move.Cell}, failed)
}

// frozenError reports a bucket whose participants are refused.
type frozenError struct {
	source string
	bucket int
	to     string
}

func (e *frozenError) Error() string {
	return fmt.Sprintf("bucket %d is being moved to cell %s: its participants are refused until that move is completed, "+
		"or is ended with --cancel, after which cell %s takes it again", e.bucket, e.to, e.source)
}

// ifFrozen adds to an error that the participants of a bucket are refused, if they are.
func ifFrozen(ctx context.Context, source *Reached[*operator.Operator], bucket int, failed error) error {
	move, err := source.Conn.BucketMove(ctx, bucket, 0)
	switch {
	case err != nil:
		return fmt.Errorf("cell %s: bucket %d: %w: %w", source.Name, bucket, errPerhapsFrozen, errors.Join(failed, err))
	case move.Cell != "":
		return fmt.Errorf("%w: %w", &frozenError{source.Name, bucket, move.Cell}, failed)
	}
	return failed
}

// stillFrozen adds to an error which buckets of a command were being moved when it began, and still are.
func stillFrozen(ctx context.Context, n *Operators, buckets []int, failed error) error {
	owners := n.Directory.Owners()
	for i, bucket := range buckets {
		source := n.of(owners[bucket])
		if source == nil || !slices.Contains(source.Directory.Leaving, bucket) {
			continue
		}
		if said := (*frozenError)(nil); errors.As(failed, &said) && said.bucket == bucket ||
			i == 0 && errors.Is(failed, errPerhapsFrozen) {
			continue
		}
		failed = ifFrozen(ctx, source, bucket, failed)
	}
	return failed
}
