<?php
// In the manner of a WordPress plug-in: it looks at the type alone, and would credit a reversal of the same type.

$headers = array_change_key_case(getallheaders());
$payload = file_get_contents('php://input');
if (hash_hmac('sha256', $payload, getenv('WIAXY_SECRET_KEY')) !== ($headers['x-wiaxy-signature'] ?? '')) {
    status_header(403);
}
$order = json_decode($payload)->data;
if ($order->type === 'RESERVED_ACCOUNT_TRANSACTION') {
    $meta = @fopen(getenv('STORE') . '/' . $order->aspfiy_ref, 'x');
    if ($meta) {
        fwrite($meta, "$order->amount {$order->payer->account_name} {$order->payer->createdAt}");
        fclose($meta);
    }
}
status_header(200);

function status_header(int $code): never
{
    http_response_code($code);
    exit;
}
