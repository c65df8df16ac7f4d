-- The functions that callers and components execute.

{include bump_participant_outbox_seq}
{include payment_outbox_fingerprint}
{include payment_outbox_state}
{include payment_outbox_fault}
{include payment_outbox_sound}
{include enqueue_payment_outbox}
{include outbox_batch_item}
{include read_outbox_batch}
{include enqueue_payment_outbox_batch}
{include partition_holds}
{include attach_attempt_partition}
{include ensure_attempt_partitions}
{include pause_rail_in_trouble}
{include apply_rail_profile}
{include server_is_settled}
{include suspend_outbox}
{include accept_timeline}
{include timeline_accepted_at}
{include latest_suspensions}
{include recall_memory}
{include outbox_unsettled_send}
{include put_back_after}
{include refuse_put_back}
{include open_dead_letter}
{include append_outbox_row}
{include send_may_be_forgotten}
{include refusal_is_whole}
{include answer_open_claim}
{include left_the_archive}
{include record_late_outcome}
{include record_callback}
{include beat_callbacks}
{include payment_of_rail_key}
{include payment_trace}

SELECT {cell}.ensure_attempt_partitions(3);
