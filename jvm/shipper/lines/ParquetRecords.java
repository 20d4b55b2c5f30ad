package shipper.lines;

import java.io.IOException;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.convert.GroupRecordConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.util.HadoopStreams;
import org.apache.parquet.io.ColumnIOFactory;
import org.apache.parquet.io.InputFile;
import org.apache.parquet.io.MessageColumnIO;
import org.apache.parquet.io.RecordReader;
import org.apache.parquet.io.SeekableInputStream;
import org.apache.parquet.schema.MessageType;

/** The rows of a Parquet file. A row group belongs to the piece that its middle lies in, as in Spark. */
final class ParquetRecords extends TableRecords {
    private final ParquetJson writer = new ParquetJson(json);
    private ParquetFileReader reader;
    private List<BlockMetaData> groups;
    private MessageColumnIO columns;
    private GroupRecordConverter rows;
    private int group = -1;
    private RecordReader<Group> current;
    private long left;
    private long taken;

    ParquetRecords(Piece piece, int maxLine, Configuration conf) throws IOException {
        super(piece, maxLine, conf);
    }

    @Override
    void header() throws IOException {
        reader = opened(ParquetFileReader.open(
                new Input(), HadoopReadOptions.builder(conf).usePageChecksumVerification(true).withUseHadoopVectoredIo(false).build()));
        groups = reader.getRowGroups();
        checkCodecs();
        MessageType schema = reader.getFileMetaData().getSchema();
        columns = new ColumnIOFactory(reader.getFileMetaData().getCreatedBy()).getColumnIO(schema);
        rows = new GroupRecordConverter(schema);
        if (piece.start() == 0) {
            taken = piece.size();
            for (BlockMetaData one : groups) {
                taken -= one.getCompressedSize();
            }
        }
    }

    private void checkCodecs() throws IOException {
        for (BlockMetaData one : groups) {
            for (ColumnChunkMetaData column : one.getColumns()) {
                String codec = column.getCodec().getHadoopCompressionCodecClassName();
                if (codec != null && conf.getClassByNameOrNull(codec) == null) {
                    throw new IOException("it is packed with " + column.getCodec().name().toLowerCase(Locale.ROOT)
                            + ", which shipper does not read: have it written with snappy, gzip, zstd or lz4_raw");
                }
            }
        }
    }

    @Override
    boolean row() throws IOException {
        while (left == 0) {
            if (!nextGroup()) {
                return false;
            }
        }
        writer.object(current.read());
        left--;
        return true;
    }

    private boolean nextGroup() throws IOException {
        while (++group < groups.size()) {
            BlockMetaData found = groups.get(group);
            if (holds(found.getStartingPos() + found.getCompressedSize() / 2)) {
                taken += found.getCompressedSize();
                left = found.getRowCount();
                if (left > 0) {
                    PageReadStore pages = reader.readRowGroup(group);
                    if (pages == null || pages.getRowCount() != left) {
                        throw new IOException("row group " + group + " has not the rows that the file's footer says");
                    }
                    current = columns.getRecordReader(pages, rows);
                    return true;
                }
            }
        }
        return false;
    }

    @Override
    long stored() {
        return taken;
    }

    private final class Input implements InputFile {
        /** For the library's messages. */
        @Override
        public String toString() {
            return "it";
        }

        @Override
        public long getLength() {
            return piece.size();
        }

        @Override
        public SeekableInputStream newStream() {
            return HadoopStreams.wrap(stored.seekable());
        }
    }
}
