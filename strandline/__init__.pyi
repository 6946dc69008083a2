from reader_client import *
from spark_integration import *
from strandline.core.backlog import BacklogDetector as BacklogDetector
from strandline.core.backlog import CallableStrategy as CallableStrategy
from strandline.logs.kafka import KafkaLog as KafkaLog
from strandline.logs.kafka_reader import KafkaLogReader as KafkaLogReader
from strandline.logs.sqlite import SqliteLog as SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader as SqliteLogReader
from strandline.version import __version__ as __version__
from writer_client import *
