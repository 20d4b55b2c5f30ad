package shipper.avro;

/** A value does not fit its schema. Says where and what was expected, in words of the schema: never what was found. */
final class Misfit extends Exception {
    private static final long serialVersionUID = 1L;

    private final String where;
    private final String what;

    Misfit(String what) {
        this("", what);
    }

    private Misfit(String where, String what) {
        super(null, null, false, false); // one for each record that does not fit: no stack
        this.where = where;
        this.what = what;
    }

    /** The same, of a value inside {@code outer}: the name of a field, or `[]`. */
    Misfit in(String outer) {
        return new Misfit(where.isEmpty() || where.startsWith("[") ? outer + where : outer + "." + where, what);
    }

    @Override
    public String getMessage() {
        return where.isEmpty() ? what : where + ": " + what;
    }
}
