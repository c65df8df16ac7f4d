-- The functions of operators. Each requires a reason and writes a row of the operator log.

{include require_reason}
{include require_settled_server}
{include log_operator_act}
{include lock_payment}
{include instruction_of}
{include close_letter}
{include set_time_budget}
{include require_end}
{include pause_rail}
{include resume_rail}
{include pause_participant}
{include resume_participant}
{include require_gate}
{include close_enqueue}
{include open_enqueue}
{include end_pauses}
{include cancel_payment}
{include reschedule_payment}
{include triage_dead_letter}
{include inquiry_said_not_executed}
{include replay_payment}
{include pause_of}
{include inquire_payment}
{include require_rails_word}
{include resolve_payment}
{include schema_version}
