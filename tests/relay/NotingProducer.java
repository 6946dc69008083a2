import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes events out of order, each with its time as the value, and says in the topic of notes how far it has come. */
public class NotingProducer {
    static final int STEP = 10;

    public static void main(String[] given) throws Exception {
        String servers = given[0], topic = given[1], notes = given[2], writer = given[3];
        long time = Long.parseLong(given[4]);
        boolean transactional = given[5].equals("transactional");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("acks", "all");
        settings.put("delivery.timeout.ms", "120000");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        if (transactional) {
            settings.put("transactional.id", writer);
            settings.put("transaction.timeout.ms", "20000");
        }
        Random random = new Random(time);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            if (transactional) producer.initTransactions();
            while (true) {
                if (transactional) producer.beginTransaction();
                for (int number = 0; number < 20; number++) {
                    String at = Long.toString(time + random.nextInt(3 * STEP)); // some are ahead of their time
                    producer.send(new ProducerRecord<>(topic, at, at));
                }
                producer.flush();
                time += STEP; // nothing of mine that is older is still to come
                System.out.println(time); // before the note: the next process begins here
                String says = "{\"stream\": \"" + topic + "\", \"writer\": \"" + writer + "\", \"time\": " + time + "}";
                producer.send(new ProducerRecord<>(notes, writer, says)).get();
                if (transactional) producer.commitTransaction();
                Thread.sleep(50);
            }
        }
    }
}
