<?php
// Receives webhooks, and prints those that Inflow signed with the secret.
//
//     INFLOW_WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:9000 webhooks.php

declare(strict_types=1);

/** Whether the body, as the bytes that arrived, was signed with the secret within five minutes. */
function verify(string $secret, string $id, string $timestamp, string $signatures, string $body): bool
{
    if (!preg_match('/^[0-9]{1,12}$/D', $timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false;
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret), true);
    if ($key === false || $key === '') {
        return false;
    }
    $mac = hash_hmac('sha256', "$id.$timestamp.$body", $key, true);
    $expected = 'v1,' . base64_encode($mac);
    $matches = false;
    // During a rotation there are several signatures, with a space between them.
    foreach (explode(' ', $signatures) as $given) {
        $matches = hash_equals($expected, $given) || $matches;
    }
    return $matches;
}

$body = file_get_contents('php://input');
$accepted = verify(
    (string) getenv('INFLOW_WEBHOOK_SECRET'),
    $_SERVER['HTTP_WEBHOOK_ID'] ?? '',
    $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '',
    $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '',
    $body,
);
http_response_code($accepted ? 204 : 401);
if ($accepted) {
    $event = json_decode($body, true, 64, JSON_THROW_ON_ERROR);
    // A repeat has the same event_id: handle each once.
    file_put_contents('php://stdout', "{$event['event']} {$event['data']['event_id']}\n");
}
