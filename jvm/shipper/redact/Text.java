package shipper.redact;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.io.ByteArrayOutputStream;

/** Bytes as characters and back, with none lost: a byte that is no UTF-8 is a lone surrogate meanwhile (as Python's surrogateescape has it). */
public final class Text {
    private static final char REPLACED = '\uFFFD';
    private static final char ESCAPED = '\uDC00';

    private Text() {}

    public static String of(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.UTF_8);
        return text.indexOf(REPLACED) < 0 ? text : escaped(bytes);
    }

    private static String escaped(byte[] bytes) {
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder()
                .onMalformedInput(CodingErrorAction.REPORT)
                .onUnmappableCharacter(CodingErrorAction.REPORT);
        ByteBuffer in = ByteBuffer.wrap(bytes);
        CharBuffer out = CharBuffer.allocate(bytes.length);
        while (true) {
            CoderResult result = decoder.decode(in, out, true);
            if (!result.isError()) {
                return out.flip().toString();
            }
            out.put((char) (ESCAPED + (in.get() & 0xFF)));
            decoder.reset();
        }
    }

    public static byte[] bytes(String text) {
        int escapes = 0;
        for (int i = 0; i < text.length(); i++) {
            escapes += isEscaped(text, i) ? 1 : 0;
        }
        if (escapes == 0) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream(text.length() + escapes);
        int at = 0;
        for (int i = 0; i < text.length(); i++) {
            if (isEscaped(text, i)) {
                out.writeBytes(text.substring(at, i).getBytes(StandardCharsets.UTF_8));
                out.write(text.charAt(i) - ESCAPED);
                at = i + 1;
            }
        }
        out.writeBytes(text.substring(at).getBytes(StandardCharsets.UTF_8));
        return out.toByteArray();
    }

    private static boolean isEscaped(String text, int at) {
        char c = text.charAt(at);
        return c >= ESCAPED + 0x80 && c <= ESCAPED + 0xFF && (at == 0 || !Character.isHighSurrogate(text.charAt(at - 1)));
    }
}
