<?php
// As much of plain PHP does: the static MD5 of the secret key, and the event's name.

$secret = getenv('WIAXY_SECRET_KEY');
$input = json_decode(file_get_contents('php://input'), true);

if (!isset($_SERVER['HTTP_X_WIAXY_SIGNATURE']) || $_SERVER['HTTP_X_WIAXY_SIGNATURE'] !== md5($secret)) {
    http_response_code(401);
    exit;
}
if ($input['event'] === 'PAYMENT_NOTIFICATION') {
    $data = $input['data'];
    // One file for each payment stands for a row with a unique key.
    $row = @fopen(getenv('STORE') . '/' . $data['wiaxy_ref'], 'x');
    if ($row) {
        $payer = $data['payer'];
        fwrite($row, "{$data['amount']} {$payer['first_name']} {$payer['last_name']} {$payer['account_number']}");
        fclose($row);
    }
}
http_response_code(200);
