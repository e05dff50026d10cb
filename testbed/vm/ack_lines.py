"""The lines that the shim says about acks, as templates; ack_checks.py explains the placeholders."""

H2_ACK = "is not acknowledged; call ibv_ack_async_event for each event that was got"
H2_ACKC = "is not acknowledged; call ibv_ack_cq_events"
ONCE = "ack each event once"


def waits(object_name, by, taker, event, call="qp"):
    """H2: a destroy of this object waits for one event."""
    return (
        f"ibv_destroy_{call}: {{{object_name}}}: {{{by}}} has waited for {{waited:{object_name}}} s: {event}, "
        f"taken by {{{taker}}} {{ago:{object_name}:{event}}} s ago, {H2_ACK}"
    )


def waits_for_completion(object_name, by, taker):
    return (
        f"ibv_destroy_cq: {{{object_name}}}: {{{by}}} has waited for {{waited:{object_name}}} s: 1 completion event, "
        f"taken by {{{taker}}} {{ago:{object_name}:last}} s ago, {H2_ACKC}"
    )


def own(object_name, by, event, call="qp"):
    """H1: the destroying thread took the event itself."""
    what, ack, key = (
        ("1 completion event", "ibv_ack_cq_events", "last") if event == "completion" else (event, "ibv_ack_async_event", event)
    )
    return (
        f"ibv_destroy_{call}: {{{object_name}}}: {{{by}}} took {what} itself {{ago:{object_name}:{key}}} s ago and did not "
        f"acknowledge it: unless another thread does, this destroy never returns; call {ack} first"
    )


def rescued(object_name, taker, event, call="qp"):
    what, key = ("1 completion event", "last") if event == "completion" else (event, event)
    return (
        f"ibv_destroy_{call}: {{{object_name}}}: {what}, taken by {{{taker}}} {{ago:{object_name}:{key}}} s ago, "
        "is acknowledged for the program (IBV_SA_ACK=rescue)"
    )


def surplus(object_name, by, event, kind, got, acked, fate="the ack is held back"):
    """B1."""
    return (
        f"ibv_ack_async_event: {{{object_name}}}: {{{by}}} acknowledged {event}, but no event of this {kind} is open "
        f"(got {got}, acknowledged {acked}); {fate}: {ONCE}"
    )


def surplus_completions(object_name, by, what, opened, got, acked, fate="the ack is held back"):
    """B2."""
    return (
        f"ibv_ack_cq_events: {{{object_name}}}: {{{by}}} acknowledged {what}, but {opened} "
        f"(got {got}, acknowledged {acked}); {fate}: {ONCE}, on its own CQ"
    )


def read_around(object_name, by, call="qp"):
    """R1."""
    return (
        f"ibv_destroy_{call}: {{{object_name}}}: {{{by}}} has waited for {{waited:{object_name}}} s though every event that was got "
        "is acknowledged: one was read around this library; a held ack goes to libibverbs"
    )
