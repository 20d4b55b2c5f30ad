package shipper.lines;

import software.amazon.awssdk.awscore.exception.AwsServiceException;

/** What S3 answered in place of what was asked for. Loaded only where the AWS SDK raised an error. */
final class S3Answer {
    private S3Answer() {}

    static String code(Throwable error) {
        boolean answered = error instanceof AwsServiceException answer && answer.awsErrorDetails() != null;
        String code = answered ? ((AwsServiceException) error).awsErrorDetails().errorCode() : null;
        return code == null ? "" : code;
    }

    static int status(Throwable error) {
        return error instanceof AwsServiceException answer ? answer.statusCode() : 0;
    }
}
