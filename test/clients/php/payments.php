<?php
// Opens a virtual account over REST, and looks a payment up by its session id.
//
//     INFLOW_SECRET_KEY=sk_… php payments.php <reference> [<session id>]

declare(strict_types=1);

/** An error of the service, with what is wrong with each field. */
final class Failure extends RuntimeException
{
    public function __construct(public readonly array $body)
    {
        $lines = ["{$body['code']}: {$body['message']} (request {$body['request_id']})"];
        foreach ($body['errors'] ?? [] as ['field' => $field, 'message' => $message]) {
            $lines[] = "$field $message";
        }
        parent::__construct(implode("\n", $lines));
    }
}

/** Posts to a path, and returns the data of the response. */
function call(string $path, array $body): array
{
    $base = getenv('INFLOW_URL') ?: 'http://127.0.0.1:8080';
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => [
            'Authorization: Bearer ' . getenv('INFLOW_SECRET_KEY'),
            'Content-Type: application/json',
        ],
        'content' => json_encode($body, JSON_THROW_ON_ERROR),
        'timeout' => 30,
        // The body of an error says what is wrong.
        'ignore_errors' => true,
    ]]);
    $text = file_get_contents("$base/v2/thirdparty/$path/", false, $context);
    if ($text === false) {
        throw new RuntimeException("$base does not respond");
    }
    $answer = json_decode($text, true, 64, JSON_THROW_ON_ERROR);
    return $answer['status'] === true ? $answer['data'] : throw new Failure($answer);
}

try {
    // A repeat with the same reference returns the same account.
    $opened = call('generateVirtualAccount', [
        'reference' => $argv[1],
        'email' => 'ada@example.com',
        'phone' => '08012345678',
        'firstName' => 'Ada',
        'lastName' => 'Obi',
        'bank' => '9PSB',
    ]);
    foreach ($opened['account'] as $account) {
        echo "account {$account['account_number']} {$account['account_name']}\n";
    }
    if (isset($argv[2])) {
        $payment = call('getTransaction', ['session_id' => $argv[2]]);
        // The amount is in naira. Count in kobo: rounding gives exactly those.
        $kobo = (int) round($payment['amount'] * 100);
        echo "payment $kobo {$payment['status']}\n";
    }
} catch (Exception $error) {
    fwrite(STDERR, $error->getMessage() . "\n");
    exit(1);
}
