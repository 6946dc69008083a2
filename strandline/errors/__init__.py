"""The errors of Strandline: one root, a stable code each, and the offending value in every sentence.

    StrandlineError
    ├── Refused                      understood and turned down; nothing changed
    │   ├── Conflict                 the call and the stored state disagree
    │   │   ├── TimeWentBack         time_went_back
    │   │   ├── PositionWentBack     position_went_back
    │   │   ├── Fenced               fenced
    │   │   ├── StreamSealed         stream_sealed
    │   │   ├── StreamExists         stream_exists
    │   │   ├── GroupExists          group_exists
    │   │   └── WrongDomain          wrong_domain
    │   ├── Missing                  what the call names is not there
    │   │   ├── UnknownStream        unknown_stream
    │   │   ├── UnknownWriter        unknown_writer
    │   │   ├── UnknownGroup         unknown_group
    │   │   └── UnknownReader        unknown_reader
    │   ├── Invalid                  the call can never succeed as it stands
    │   │   ├── BadJson              bad_json
    │   │   ├── TooLarge             too_large
    │   │   ├── TooMany              too_many
    │   │   ├── InvalidName          invalid_name
    │   │   ├── InvalidConfig        invalid_config
    │   │   ├── InvalidParameter     invalid_parameter
    │   │   ├── InvalidNote          invalid_note
    │   │   ├── InvalidScale         invalid_scale
    │   │   ├── UnknownSegment       unknown_segment
    │   │   ├── UnknownSeq           unknown_seq
    │   │   ├── BeyondFinalOffset    beyond_final_offset
    │   │   └── TimeTooFarAhead      time_too_far_ahead
    │   └── Denied
    │       ├── Unauthenticated      unauthenticated
    │       └── Forbidden            forbidden
    ├── Unavailable                  nothing is known to be wrong with the call: try again
    │   ├── Overloaded               overloaded
    │   ├── StreamLoading            stream_loading
    │   └── StoreUnavailable         store_unavailable
    ├── StoreCorrupt                 store_corrupt: a row of the store is not what was written; waiting mends nothing
    └── RuleBroken                   a caller of the pure core broke a rule that it documents
        ├── WatermarkWentBack        watermark_went_back
        ├── InputDone                input_done
        ├── UnknownInput             unknown_input
        └── QueueFull                queue_full

Each is a keyword-only dataclass, so its fields can go over the wire and come back, and it pickles.
"""

from strandline.errors.base import (
    StrandlineError,
)
from strandline.errors.corrupt import (
    StoreCorrupt,
)
from strandline.errors.invalid import (
    BadJson,
    BeyondFinalOffset,
    Invalid,
    InvalidConfig,
    InvalidName,
    InvalidNote,
    InvalidParameter,
    InvalidScale,
    TimeTooFarAhead,
    TooLarge,
    TooMany,
    UnknownSegment,
    UnknownSeq,
)
from strandline.errors.refused import (
    Conflict,
    Denied,
    Fenced,
    Forbidden,
    GroupExists,
    Missing,
    PositionWentBack,
    Refused,
    StreamExists,
    StreamSealed,
    TimeWentBack,
    Unauthenticated,
    UnknownGroup,
    UnknownReader,
    UnknownStream,
    UnknownWriter,
    WrongDomain,
)
from strandline.errors.rules import (
    InputDone,
    QueueFull,
    RuleBroken,
    UnknownInput,
    UnknownTicket,
    WatermarkWentBack,
)
from strandline.errors.unavailable import (
    Overloaded,
    StoreUnavailable,
    StreamLoading,
    Unavailable,
)

__all__ = [
    "BadJson",
    "BeyondFinalOffset",
    "Conflict",
    "Denied",
    "Fenced",
    "Forbidden",
    "GroupExists",
    "InputDone",
    "Invalid",
    "InvalidConfig",
    "InvalidName",
    "InvalidNote",
    "InvalidParameter",
    "InvalidScale",
    "Missing",
    "Overloaded",
    "PositionWentBack",
    "QueueFull",
    "Refused",
    "RuleBroken",
    "StoreCorrupt",
    "StoreUnavailable",
    "StrandlineError",
    "StreamExists",
    "StreamLoading",
    "StreamSealed",
    "TimeTooFarAhead",
    "TimeWentBack",
    "TooLarge",
    "TooMany",
    "Unauthenticated",
    "Unavailable",
    "UnknownGroup",
    "UnknownInput",
    "UnknownReader",
    "UnknownSegment",
    "UnknownSeq",
    "UnknownStream",
    "UnknownTicket",
    "UnknownWriter",
    "WatermarkWentBack",
    "WrongDomain",
]
