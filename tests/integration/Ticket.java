import java.io.File;
import org.apache.kerby.kerberos.kerb.client.KrbClient;
import org.apache.kerby.kerberos.kerb.type.ticket.TgtTicket;

/** What `kinit -kt KEYTAB -c CACHE PRINCIPAL` does, without MIT's programs. */
class Ticket {
    public static void main(String[] arguments) throws Exception {
        KrbClient client = new KrbClient(new File(arguments[0]));
        client.init();
        TgtTicket ticket = client.requestTgt(arguments[1], new File(arguments[2]));
        client.storeTicket(ticket, new File(arguments[3]));
    }
}
