"""Questions before and while something is done: another version, whose fault, undoing, waiting, restarting."""

from __future__ import annotations

from agent.models.playbook import effects, operating, recorded, seen
from agent.models.playbook.intents.words import REQUESTS, SPEED, START, TIME, Rows, any_of, unless


def on_other_things() -> Rows:
    """What must be told apart first: another version, what the rest could be, what is said in passing."""
    yield seen.term, r"what (?:does|do) (?:an? |the )?(.+?) (?:mean|stand for)\b"
    yield seen.term, r"(?:meaning of|what is meant by|define) (?:an? |the )?(.+?)\W*$"
    others = r"users?|boss|team|manager|clients?|management|colleagues?|shift|everybody|everyone"
    tells = r"\b(?:tell|write|say|inform|announce|message|explain|report|post)\b"
    yield operating.message, tells, rf"\b(?:{others})\b", r"\bi\b|\bwe\b|^(?:write|tell|message|explain)|what|message"
    yield operating.message, r"status.?page|hand.?over|post.?mortem|incident report"
    yield recorded.other_version, r"(?<![\d.])(0\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)(?![\d.])"
    parts = r"model|server|sglang|hardware|gpus?|client|driver|kernel|host|config|setting|software|bug|machine|us|them"
    yield recorded.which_part, rf"\b(?:{parts})\b.*\bor\b.*\b(?:{parts})\b"
    yield recorded.which_part, r"\b(?:fault|blame)\b"
    beside = r"(?:something|anything|what|who|where) else|other (?:problems?|issues?|causes?|explanations?|suspects?)"
    yield recorded.others, beside, r"\b(?:be|wrong|broken|cause\w*|problems?|issues?|explan\w*|suspects?)\b"
    yield recorded.others, r"ruled? out|other hypothes\w*|all hypothes\w*|hypothes[ei]s"
    yield seen.evidence_listed, r"(?:show|list|see|all|what)\b.*\bevidence\b(?! e\d)|^evidence\W*$"


def on_the_change() -> Rows:
    """Undoing, losing, waiting, restarting: what is asked before anything is typed."""
    back = r"(?:take|put|get) (?:it |this |that )?back"
    yield (
        operating.rollback,
        any_of(r"roll.?back|\bundo|revert|reversib\w*|go back|back out", back, r"old (?:config|settings|value)"),
    )
    dead = r"(?:doesn't|does not|won't|will not|not) (?:come (?:back )?up|start|boot)|fails? to start"
    dead += r"|re-?start\w* (?:fails?|hangs?)"
    yield operating.rollback, unless("why", dead)
    worse = r"(?:gets?|got) worse|go(?:es)? wrong|went wrong|breaks\b|broke\b"
    no_help = r"(?:doesn't|does not|won't|did not|didn't) (?:help|work)"
    yield (
        operating.rollback,
        any_of(worse, no_help),
        r"\b(?:if|when|in case|now|after|it)\b",
        unless("will|would|can|until|what breaks", "."),
    )
    stopped = r"\b(?:kill|abort|cancel|evict|end|stop|throw out|drop|cut|terminate)\b"
    yield (
        operating.ended,
        rf"\b(?:can|could|should|what if|if|how|just|may)\b.*{stopped}",
        rf"\b(?:{REQUESTS})s?\b",
        unless(f"you|restart|queued|{SPEED}", "."),
    )
    yield operating.drain, unless("queue", r"\bdrain\w*")
    doing = r"\b(?:do|make|apply|run|change|fix|restart|set)\b"
    yield (
        operating.by_hand,
        r"\b(?:can|could|will|would|please)\b(?! (?:i|we)\b).*\byou\b",
        doing,
        r"for me|\bit\b|\bthat\b",
    )
    ended = r"\b(?:lose\w*|lost|losing|drop\w*|kill\w*|abort\w*|cut off|in.?flight|interrupt\w*)\b"
    again = r"\b(?:reconnect\w*|resend|retry)\b"
    other = "per second|throughput|speed|latency|(?:i|we) (?:just )?(?:kill|abort|drop|cut)"
    yield (
        operating.lost,
        unless(other, any_of(ended, again, r"\bhappens? (?:to|with)\b")),
        any_of(REQUESTS, r"\bcaches?\b|prefix"),
    )
    yield operating.lost, r"\bhappens?\b", START
    held_off = r"\b(?:wait|ignore|postpone|delay|urgent\w*|do nothing|leave it|sleep|go to bed"
    held_off += r"|wake|escalate|page (?:some|any)\w+|on.?call|emergency)\b"
    moment = r"until|till|morning|tomorrow|monday|weekend|hours?|\b(?:can|could|must|should|what|how|is|do)\b"
    yield effects.wait, unless("why|many|requests?|queue", held_off), moment
    live = r"without (?:downtime|an? outage)|hot.?(?:re)?load|on the fly|(?:at |in |during )run.?time|\blive\b|dynamic"
    yield (
        operating.no_restart,
        unless(
            r"prompts?|tokens?|users?",
            any_of(live, r"\blater\b|\btonight\b|\bat night\b|while (?:it is |it's )?(?:running|serving)"),
        ),
    )
    yield (
        operating.restart_how,
        r"\bhow (?:do|can|to|should)\b(?! ?long)",
        r"re-?start\b",
        unless("without|avoid", "."),
    )
    yield (
        effects.down_with,
        r"\b(?:down|offline|unavailable|unreachable|downtime|restart)\b",
        r"long|\btime\b|minutes",
        r"\d",
    )
    yield operating.restart_cost, r"\b(?:down|offline|unavailable|unreachable)\b", r"long|\bbe\b|time"
    priced = r"what (?:does|will|would|is) (?:it|this|that|the change|the fix) costs?\b|^what costs? (?:it|this)"
    yield (
        operating.restart_cost,
        unless("quality|accuracy|speed|latency|memory", any_of(priced, r"what.*the (?:cost|price)")),
    )
    yield operating.restart_cost, r"downtime|outage|back up\b|\beta\b"
    seen_then = r"\b(?:see|look|expect|log|check|appear|print)\b"
    yield operating.verify, r"\b(?:after|next)\b", START, seen_then
    yield operating.restart_cost, unless("what time|when", START), TIME
    negative = r"\b(?:can't|cannot|without|no|not|avoid|live|hot|on the fly|instead of)\b"
    needed = r"\b(?:need\w*|have to|must|requir\w*|necessary|really)\b"
    yield operating.restart_cost, r"re-?load\w*|load(?:ed)? again", r"\b(?:model|weights)\b"
    yield operating.no_restart, START, any_of(negative, needed)
    yield operating.change, START, r"\b(?:one|single|same|both|two)\b.*\bre-?start|re-?start.*\b(?:once|both|all)\b"
    moment = r"\b(?:now|safe|okay|when|good (?:time|moment)|quiet|right away|risk\w*|possible|can|may|should)\b"
    yield effects.safe_now, START, unless("did|was|were|has", moment)
    yield effects.safe_now, r"safe to (?:apply|do)|apply (?:it )?now|now apply|\b(?:do|apply) (?:it|this|that) now"
    stays = r"\b(?:setting|change|it|this)\b.*\b(?:stay|stick|last)\b"
    yield operating.permanent, any_of(r"permanent|persist\w*|surviv\w*|(?:keep|stay|hold)s? after|only until", stays)
    acted = r"\b(?:run|ran|execute\w*|touch\w*|change|changed|write|wrote|do|break)\b"
    yield operating.touched, r"\b(?:did|have) (?:you|it|sglscout)\b", acted
    yield operating.unit, r"\b(?:which|what)\b.*\b(?:unit|service|systemd)\b|\bunit (?:file|name)\b|which file"
