"""Collect every sentence on a ticket or on the crane, and refuse to go on if one is not known."""

import json
import re

with open("/workspace/site-diary.md", encoding="utf-8") as stream:
    diary = stream.read()

VOLUME, TICKET, ELEMENT = r"(?P<volume>\d+\.\d) m³", r"(?P<ticket>\d{5})", r"(?P<element>[\w ]+)"
DELIVERIES = [
    rf"Ticket {TICKET}: {VOLUME} for the {ELEMENT}\.",
    rf"The {ELEMENT} took {VOLUME} \(ticket {TICKET}\)\.",
    rf"A load of {VOLUME} under ticket {TICKET} was placed in the {ELEMENT}\.",
    rf"For the {ELEMENT} came ticket {TICKET} with {VOLUME}\.",
]
SENT_BACK = [
    rf"Ticket {TICKET} went back to the plant",
    rf"The load of ticket {TICKET} was turned away",
]
CORRECTED = [
    rf"ticket {TICKET} was {VOLUME}\.",
    rf"statement gives {VOLUME} for ticket {TICKET},",
]
TAKEN_OUT = [
    rf"The cubes of ticket {TICKET} failed .*? broken out\.",
    rf"What was placed under ticket {TICKET} was cut out",
]
NOTHING = [
    rf"The cubes of ticket {TICKET} passed",
    rf"The doubt about ticket {TICKET} was settled",
]
TIMES = r"from (\d+):(\d\d) to (\d+):(\d\d)"
WIND = [rf"crane stood {TIMES} because of wind", rf"crane was in free slew {TIMES}"]


def found(patterns):
    return [match for pattern in patterns for match in re.finditer(pattern, diary)]


known = sum(len(found(each)) for each in (DELIVERIES, SENT_BACK, CORRECTED, TAKEN_OUT, NOTHING))
assert known == len(re.findall(r"(?i)\bticket \d{5}", diary)), "a sentence was overlooked"

loads = {match["ticket"]: match["element"] for match in found(DELIVERIES)}
volumes = {match["ticket"]: float(match["volume"]) for match in found(DELIVERIES)}
volumes.update({match["ticket"]: float(match["volume"]) for match in found(CORRECTED)})
sent_back = {match["ticket"] for match in found(SENT_BACK)}
taken_out = {match["ticket"] for match in found(TAKEN_OUT)}
stayed = loads.keys() - sent_back - taken_out

minutes = 0
for match in found(WIND):
    hour, minute, last_hour, last_minute = map(int, match.groups())
    minutes += 60 * (last_hour - hour) + last_minute - minute

answer = {
    "total_m3": sum(volumes[ticket] for ticket in stayed),
    "raft_b_m3": sum(volumes[t] for t in stayed if loads[t] == "raft of block B"),
    "taken_out_m3": sum(volumes[ticket] for ticket in taken_out),
    "wind_h": minutes / 60,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as stream:
    stream.write(json.dumps(answer) + "\n")
