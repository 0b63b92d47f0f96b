<?php
// In the manner of a Laravel controller: a middleware verifies, the controller credits, firstOrCreate keeps it once.

final class Request
{
    public readonly string $content;

    public function __construct()
    {
        $this->content = file_get_contents('php://input');
    }

    public function header(string $name): string
    {
        return $_SERVER['HTTP_' . strtoupper(str_replace('-', '_', $name))] ?? '';
    }

    public function input(string $path, mixed $default = null): mixed
    {
        $value = json_decode($this->content, true);
        foreach (explode('.', $path) as $key) {
            $value = $value[$key] ?? null;
        }
        return $value ?? $default;
    }
}

final class VerifyWiaxySignature
{
    public function handle(Request $request, callable $next): int
    {
        $timestamp = $request->header('x-wiaxy-timestamp');
        $expected = hash_hmac('sha256', $timestamp . '.' . $request->content, getenv('WIAXY_SECRET_KEY'));
        if (abs(time() - (int) $timestamp) > 300) {
            return 400;
        }
        return hash_equals($expected, $request->header('x-wiaxy-signature-256')) ? $next($request) : 401;
    }
}

final class WalletController
{
    public function webhook(Request $request): int
    {
        if ($request->input('event') !== 'PAYMENT_NOTIFICATION') {
            return 200;
        }
        $customer = $request->input('data.customer');
        $row = @fopen(getenv('STORE') . '/' . $request->input('data.transaction_ref'), 'x');
        if ($row) {
            fwrite($row, "{$request->input('data.amount')} {$customer['firstName']} {$customer['lastName']} {$customer['email']}");
            fclose($row);
        }
        return 200;
    }
}

http_response_code((new VerifyWiaxySignature())->handle(new Request(), [new WalletController(), 'webhook']));
